// A barrier of all blocks of a grid that are on the GPU together.
#pragma once

#include <cuda_runtime.h>

namespace twobw::models::cuda {

// By one thread of every block. What a block's threads wrote before it came here is seen by all after it,
// where barriers of the block stand before and behind. The counter's highest bit turns over when all have
// come, and the others are 0 again, so that nobody resets it; 0 before the first.
class GridBarrier {
 public:
  explicit __device__ GridBarrier(unsigned* counter) : counter_(counter), turn_(read()) {}

  __device__ void arrive() const {
    const unsigned own = blockIdx.x == 0 ? kTurn - (gridDim.x - 1) : 1;
    asm volatile("red.add.release.gpu.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(counter_)),
                 "r"(own)
                 : "memory");
  }
  __device__ void await() {
    constexpr unsigned kTooOften = 1u << 26;  // some 20 s or more: rather an error than a GPU that hangs
    for (unsigned looks = 0; ((read() ^ turn_) & kTurn) == 0; ++looks) {
      if (looks == kTooOften) __trap();
    }
    turn_ ^= kTurn;
  }

 private:
  static constexpr unsigned kTurn = 0x80000000u;

  __device__ unsigned read() const {
    unsigned now = 0;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                 : "=r"(now)
                 : "l"(__cvta_generic_to_global(counter_))
                 : "memory");
    return now;
  }

  unsigned* counter_;
  unsigned turn_;
};

// Barriers of some of a block's warps, or all of them; 16 there are, of which 0 is that of __syncthreads().
template <int Barrier, int Threads>
__device__ __forceinline__ void sync_threads() {
  __syncwarp();
  asm volatile("bar.sync %0, %1;" ::"n"(Barrier), "n"(Threads) : "memory");
}
template <int Threads>
__device__ __forceinline__ void sync_threads(int barrier) {
  __syncwarp();
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(Threads) : "memory");
}

}  // namespace twobw::models::cuda
