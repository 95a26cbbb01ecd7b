// A barrier of all blocks of a grid that are on the GPU together.
#pragma once

#include <cuda_runtime.h>

namespace twobw::models::cuda {

// By one thread of every block. What a block's threads wrote before it came here is seen by all after it,
// where barriers of the block stand before and behind. The counter's highest bit turns over when all have
// come, and the others are 0 again, so that nobody resets it; 0 before the first.
__device__ __forceinline__ void await_grid(unsigned* counter) {
  constexpr unsigned kTurn = 0x80000000u;
  constexpr long long kTooLong = 1ll << 35;  // cycles, some 20 s: rather an error than a GPU that hangs
  const unsigned own = blockIdx.x == 0 ? kTurn - (gridDim.x - 1) : 1;
  unsigned before = 0, now = 0;
  asm volatile("atom.add.release.gpu.global.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(__cvta_generic_to_global(counter)), "r"(own)
               : "memory");
  const long long begin = clock64();
  while (true) {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                 : "=r"(now)
                 : "l"(__cvta_generic_to_global(counter))
                 : "memory");
    if (((before ^ now) & kTurn) != 0) return;
    if (clock64() - begin > kTooLong) __trap();
  }
}

// Barriers of some of a block's warps, or all of them; 16 there are, of which 0 is that of __syncthreads().
template <int Barrier, int Threads>
__device__ __forceinline__ void sync_threads() {
  __syncwarp();
  asm volatile("bar.sync %0, %1;" ::"n"(Barrier), "n"(Threads) : "memory");
}

}  // namespace twobw::models::cuda
