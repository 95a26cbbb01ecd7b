// Keep tensors until queued work has used them, so that their memory is not reused before. LibTorch's
// record_stream() does not suffice: its notes are lost when another thread captures a graph meanwhile. Used
// by one thread at a time.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <utility>
#include <vector>

#include "engine/device/clock.h"
#include "engine/device/gpu.h"
#include "engine/transport/link.h"

namespace twobw::transport {

// Tensors that a transfer reads.
class LeavingTensors {
 public:
  // `gone`: the end of the transfer; transfers end in the order of their calls.
  void keep(Tensors tensors, device::StreamEvent gone) {
    leaving_.push_back({std::move(tensors), std::move(gone)});
    while (!leaving_.empty() &&
           cudaEventQuery(static_cast<cudaEvent_t>(leaving_.front().gone.get())) == cudaSuccess)
      leaving_.pop_front();
  }
  void clear() { leaving_.clear(); }

 private:
  struct Leaving {
    Tensors tensors;
    device::StreamEvent gone;
  };
  std::deque<Leaving> leaving_;
};

// Tensors that a worker took from another stream's memory, until its own stream has used them.
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
