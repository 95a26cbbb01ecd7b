// Shared memory of a block beyond what every kernel may take.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace twobw::models::cuda {

// The most bytes that a block of the kernel may be launched with on the current GPU besides those that the
// kernel has itself; 0 without a GPU.
template <typename Kernel>
std::size_t most_room(Kernel* kernel) {
  int gpu = 0, most = 0;
  cudaFuncAttributes attributes{};
  if (cudaGetDevice(&gpu) != cudaSuccess ||
      cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu) != cudaSuccess ||
      cudaFuncGetAttributes(&attributes, kernel) != cudaSuccess)
    return 0;
  const int room = most - static_cast<int>(attributes.sharedSizeBytes);
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, room) != cudaSuccess)
    return 0;
  return static_cast<std::size_t>(room);
}

// Whether two blocks of so many bytes besides the kernel's own fit a multiprocessor of the current GPU.
template <typename Kernel>
bool two_fit(Kernel* kernel, std::size_t bytes) {
  int gpu = 0, all = 0, reserved = 0;
  cudaFuncAttributes attributes{};
  if (cudaGetDevice(&gpu) != cudaSuccess ||
      cudaDeviceGetAttribute(&all, cudaDevAttrMaxSharedMemoryPerMultiprocessor, gpu) != cudaSuccess ||
      cudaDeviceGetAttribute(&reserved, cudaDevAttrReservedSharedMemoryPerBlock, gpu) != cudaSuccess ||
      cudaFuncGetAttributes(&attributes, kernel) != cudaSuccess)
    return false;
  const std::size_t one = bytes + attributes.sharedSizeBytes + static_cast<std::size_t>(reserved);
  return 2 * one <= static_cast<std::size_t>(all);
}

// Whether the current GPU has so many bytes for a block; the kernel may be launched with them then.
template <typename Kernel>
bool make_room(Kernel* kernel, std::size_t bytes) {
  int gpu = 0, most = 0;
  if (cudaGetDevice(&gpu) != cudaSuccess ||
      cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu) != cudaSuccess)
    return false;
  cudaFuncAttributes attributes{};
  if (cudaFuncGetAttributes(&attributes, kernel) != cudaSuccess) return false;
  if (attributes.sharedSizeBytes + bytes > static_cast<std::size_t>(most)) return false;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)) ==
         cudaSuccess;
}

}  // namespace twobw::models::cuda
