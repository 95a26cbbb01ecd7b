// Keeps tensors that a worker took from another stream's memory until its own stream has used them.
// LibTorch's record_stream() does not suffice: its notes are lost when another thread captures a graph
// meanwhile.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "engine/device/gpu.h"
#include "engine/device/stream_event.h"
#include "engine/transport/link.h"

namespace twobw::transport {

class StreamKeepAlive {
 public:
  // Called after the thread has queued, on this stream of its current GPU, all uses of the tensors kept
  // before.
  void keep(const Tensors& tensors, cudaStream_t stream) {
    for (Kept& kept : kept_) {
      if (kept.stream == stream && !kept.used) kept.used = device::record_stream_event(stream);
    }
    std::erase_if(kept_, [](const Kept& kept) {
      return kept.used && cudaEventQuery(static_cast<cudaEvent_t>(kept.used.get())) == cudaSuccess;
    });
    kept_.push_back({.tensors = tensors, .stream = stream, .used = nullptr});
  }

 private:
  struct Kept {
    Tensors tensors;
    cudaStream_t stream;
    device::StreamEvent used;  // null until the next tensors are kept
  };

  std::vector<Kept> kept_;
};

}  // namespace twobw::transport
