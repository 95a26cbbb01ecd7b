// What code that launches on a stream may know of the device behind it: a whole GPU, or a slice of one.
// Looked up by stream, so that it is found from whichever thread launches: LibTorch runs backwards on its
// own.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "engine/device/stream_event.h"

namespace twobw::device {

struct GpuContext {
  int gpu = 0;
  int product_multiprocessors = 0;  // see whole_rounds in engine/device/slices.h
  void* workspace = nullptr;        // for libraries; used in the stream's order alone
  std::size_t workspace_bytes = 0;
  bool deterministic = false;  // same bits every time, even where that costs speed
};

// Of a stream that was registered; asserts otherwise.
const GpuContext& gpu_context(cudaStream_t stream);
void register_gpu_stream(cudaStream_t stream, const GpuContext& context);
void forget_gpu_stream(cudaStream_t stream);

// As in engine/device/stream_event.h, for any stream: one of the calling thread's GPU to record on, of any
// GPU to wait on.
StreamEvent record_stream_event(cudaStream_t stream);
void await_stream_event(const StreamEvent& ready, cudaStream_t stream);

// While it lives, the calling worker's thread queues on another stream than its own: one of this GPU, which
// is the thread's current one.
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

// Throws RunError that says what failed, where `error` is one.
void check_cuda(cudaError_t error, const char* what);

}  // namespace twobw::device
