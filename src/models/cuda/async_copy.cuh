// Copies from memory to shared memory that a thread does not wait for.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace twobw::models::cuda {

// For the second cache: what is fetched by it leaves first.
__device__ __forceinline__ std::uint64_t read_once_policy() {
  std::uint64_t policy = 0;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// A pack to shared memory, or zeros.
__device__ __forceinline__ void fetch(uint4* to, const void* from, bool exists, std::uint64_t policy) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(address),
               "l"(__cvta_generic_to_global(from)), "r"(exists ? 16 : 0), "l"(policy)
               : "memory");
}
// Groups are of one thread, which alone sees what they have fetched.
__device__ __forceinline__ void end_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Until all groups of this thread but the last `Last` are there.
template <int Last>
__device__ __forceinline__ void await_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Last) : "memory");
}

__device__ __forceinline__ unsigned shared_address(const void* of) {
  return static_cast<unsigned>(__cvta_generic_to_shared(of));
}
__device__ __forceinline__ uint4 read_shared(unsigned address) {
  uint4 pack;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(pack.x), "=r"(pack.y), "=r"(pack.z), "=r"(pack.w)
               : "r"(address)
               : "memory");
  return pack;
}
__device__ __forceinline__ uint4 read_shared(const void* from) {
  return read_shared(shared_address(from));
}

}  // namespace twobw::models::cuda
