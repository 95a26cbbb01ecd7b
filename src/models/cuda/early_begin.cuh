// Kernels of a step that begin while those before them still run (programmatic dependent launch): what no
// kernel of the step writes, as weights, is on its way before they wait.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

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

// Whether a kernel may begin early: in a graph that is being captured, where all that was queued before the
// graph has ended; and compiled for GPUs that can wait.
inline bool may_begin_early(const void* kernel, cudaStream_t stream) {
#if CUDART_VERSION >= 12030
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &status) != cudaSuccess || status != cudaStreamCaptureStatusActive)
    return false;
  constexpr int kHopper = 90;
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess && attributes.ptxVersion >= kHopper;
#else
  return false;
#endif
}

// Launches a kernel that begins with let_next_begin() and waits as said. All ask for the same division of a
// multiprocessor's memory: blocks of two kernels are on it together only where they agree.
template <typename... Parameters, typename... Arguments>
void launch_in_step(void (*kernel)(Parameters...), dim3 blocks, unsigned threads, std::size_t room,
                    cudaStream_t stream, const Arguments&... arguments) {
  cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                       cudaSharedmemCarveoutMaxShared);
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = room;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = may_begin_early(reinterpret_cast<const void*>(kernel), stream) ? 1 : 0;
  cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace twobw::models::cuda
