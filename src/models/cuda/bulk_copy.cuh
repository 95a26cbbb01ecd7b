// Copies of whole pieces from memory to shared memory by the copy engine of Hopper and later: one thread asks,
// and barriers in shared memory (mbarriers) tell who reads them. On GPUs before it they do nothing.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace twobw::models::cuda {

__device__ __forceinline__ unsigned shared_address(const void* of) {
  return static_cast<unsigned>(__cvta_generic_to_shared(of));
}

// Its phases end when so many have arrived and all bytes that they expect are there. Before the first use:
// end_of_begun() by the thread that began them, then a barrier of the block.
__device__ __forceinline__ void begin_barrier(std::uint64_t* barrier, unsigned count) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count)
               : "memory");
#endif
}
__device__ __forceinline__ void end_of_begun() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

__device__ __forceinline__ void arrive(std::uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
#endif
}
__device__ __forceinline__ void arrive_expecting(std::uint64_t* barrier, unsigned bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(bytes)
               : "memory");
#endif
}

// Until the phase of this parity has ended; that before the first, of parity 1, has.
__device__ __forceinline__ void await_phase(std::uint64_t* barrier, unsigned parity) {
#if __CUDA_ARCH__ >= 900
  constexpr unsigned kTooOften = 1u << 28;  // rather an error than a GPU that hangs
  for (unsigned turn = 0;; ++turn) {
    unsigned done = 0;
    asm volatile(
        "{\n.reg .pred done;\nmbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
        "selp.u32 %0, 1, 0, done;\n}"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
    if (done != 0) return;
    if (turn == kTooOften) __trap();
  }
#endif
}

// Bytes in whole packs of 16, from and to places of these; the barrier is told.
__device__ __forceinline__ void fetch_bulk(void* to, const void* from, unsigned bytes, std::uint64_t* barrier,
                                           std::uint64_t policy) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], "
      "%4;" ::"r"(shared_address(to)),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
      : "memory");
#endif
}

}  // namespace twobw::models::cuda
