// Keeps what a worker takes from another stream's memory until its own stream has used it. LibTorch's
// record_stream() would not do: what it notes is forgotten where another thread captures a graph meanwhile.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "engine/device/gpu.h"
#include "engine/device/stream_event.h"
#include "engine/transport/link.h"

namespace twobw::transport {

class InUse {
 public:
  // By a thread that has queued, on this stream of its current GPU, all that it does with what it took
  // before.
  void take(const Tensors& tensors, cudaStream_t stream) {
    for (Taken& taken : taken_) {
      if (taken.stream == stream && !taken.used) taken.used = device::record_stream_event(stream);
    }
    std::erase_if(taken_, [](const Taken& taken) {
      return taken.used && cudaEventQuery(static_cast<cudaEvent_t>(taken.used.get())) == cudaSuccess;
    });
    taken_.push_back({.tensors = tensors, .stream = stream, .used = nullptr});
  }

 private:
  struct Taken {
    Tensors tensors;
    cudaStream_t stream;
    device::StreamEvent used;  // null until the next is taken
  };

  std::vector<Taken> taken_;
};

}  // namespace twobw::transport
