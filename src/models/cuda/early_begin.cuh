// Kernels of a step that begin while those before them still run (programmatic dependent launch): what no
// kernel of the step writes, as weights, is on its way before they wait.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "models/decode_kernels_cuda.h"

namespace twobw::models::cuda {

// The next kernel may begin once every block has come here, or ended, and there is room for it.
__device__ __forceinline__ void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Until the kernel before has ended, and what it has written can be read. As that waited too, so have all
// before it. Every thread must come before it writes to memory, or reads what the step has written.
__device__ __forceinline__ void await_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Whether the kernel is compiled for GPUs that can wait, and that have clusters of blocks.
inline bool is_for_hopper(const void* kernel) {
  constexpr int kHopper = 90;
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess && attributes.ptxVersion >= kHopper;
}

// Whether a kernel may begin early: in a graph that is being captured, where all that was queued before the
// graph has ended; and compiled for GPUs that can wait.
inline bool may_begin_early(const void* kernel, cudaStream_t stream) {
#if CUDART_VERSION >= 12030
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (!begins_early() || cudaStreamIsCapturing(stream, &status) != cudaSuccess ||
      status != cudaStreamCaptureStatusActive)
    return false;
  return is_for_hopper(kernel);
#else
  return false;
#endif
}

struct LaunchShape {
  dim3 blocks;
  unsigned threads = 1;
  std::size_t room = 0;     // bytes of shared memory besides the kernel's own
  unsigned in_cluster = 1;  // blocks along x; more than 1 only where is_for_hopper()
};

// Launches a kernel that waits as said. All ask for the same division of a
// multiprocessor's memory: blocks of two kernels are on it together only where they agree.
template <typename... Parameters, typename... Arguments>
void launch_in_step(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream,
                    const Arguments&... arguments) {
  cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                       cudaSharedmemCarveoutMaxShared);
  cudaLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (may_begin_early(reinterpret_cast<const void*>(kernel), stream)) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.in_cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = shape.in_cluster;
    attributes[count].val.clusterDim.y = 1;
    attributes[count++].val.clusterDim.z = 1;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = shape.blocks;
  config.blockDim = dim3(shape.threads);
  config.dynamicSmemBytes = shape.room;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace twobw::models::cuda
