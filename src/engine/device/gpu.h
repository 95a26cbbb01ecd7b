// The device behind a stream, a whole GPU or a slice of one, for code that launches on it. Looked up by
// stream, because LibTorch launches backwards from its own threads.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "engine/device/clock.h"

namespace twobw::device {

struct GpuContext {
  int gpu = 0;
  int product_multiprocessors = 0;  // see whole_rounds in engine/device/slices.h
  void* workspace = nullptr;        // for libraries, in stream order
  std::size_t workspace_bytes = 0;
  bool deterministic = false;  // reproducible results, even if slower
};

// Asserts that the stream is registered.
const GpuContext& gpu_context(cudaStream_t stream);
void register_gpu_stream(cudaStream_t stream, const GpuContext& context);
void forget_gpu_stream(cudaStream_t stream);

// As in engine/device/clock.h. Records on a stream of the calling thread's GPU, waits on one of any
// GPU.
StreamEvent record_stream_event(cudaStream_t stream);
void await_stream_event(const StreamEvent& ready, cudaStream_t stream);

// Scope in which the calling thread queues on another stream of `gpu`, its current device.
class StreamScope {
 public:
  StreamScope(cudaStream_t stream, int gpu);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  cudaStream_t before_;  // the thread's, of whichever GPU
  cudaStream_t there_;   // LibTorch's on this one
  int gpu_;
};

// Throws RunError with `what` unless the call succeeded.
void check_cuda(cudaError_t error, const char* what);

}  // namespace twobw::device
