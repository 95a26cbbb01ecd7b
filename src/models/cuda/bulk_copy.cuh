// Copies of whole pieces from memory to shared memory by the copy engine of Hopper and later: one thread
// asks, and barriers in shared memory (mbarriers) tell who reads them. On GPUs before it they do nothing.
// Places in shared memory are given as shared_address() has them.
#pragma once

#include <cstdint>

#include "models/cuda/async_copy.cuh"

namespace twobw::models::cuda {

// Its phases end when so many have arrived and all bytes that they expect are there. Before the first use:
// end_of_begun() by the thread that began them, then a barrier of the block.
__device__ __forceinline__ void begin_barrier(unsigned barrier, unsigned count) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
#endif
}
__device__ __forceinline__ void end_of_begun() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

__device__ __forceinline__ void arrive(unsigned barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
#endif
}
__device__ __forceinline__ void arrive_expecting(unsigned barrier, unsigned bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
#endif
}

// Until the phase of this parity has ended; that before the first, of parity 1, has.
__device__ __forceinline__ void await_phase(unsigned barrier, unsigned parity) {
#if __CUDA_ARCH__ >= 900
  constexpr unsigned kTooOften = 1u << 28;  // rather an error than a GPU that hangs
  for (unsigned turn = 0;; ++turn) {
    unsigned done = 0;
    asm volatile(
        "{\n.reg .pred done;\nmbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
        "selp.u32 %0, 1, 0, done;\n}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
    if (done != 0) return;
    if (turn == kTooOften) __trap();
  }
#endif
}

// Bytes in whole packs of 16, from and to places of these; the barrier is told.
__device__ __forceinline__ void fetch_bulk(unsigned to, const void* from, unsigned bytes, unsigned barrier,
                                           std::uint64_t policy) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
      "[%3], "
      "%4;" ::"r"(to),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
#endif
}

}  // namespace twobw::models::cuda
