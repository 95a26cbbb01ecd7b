// Holds a stream until a batch of work is queued, so that the GPU does not wait for the thread. Used by one
// thread at a time, with one GPU and its slices.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>

namespace twobw::device {

class StreamGate {
 public:
  // Limit of a hold, so that a thread that waits for the GPU with a closed gate makes progress.
  static constexpr std::chrono::milliseconds kLimit{200};

  explicit StreamGate(std::chrono::nanoseconds limit = kLimit);
  ~StreamGate();  // opens the gate and waits for the stream
  StreamGate(const StreamGate&) = delete;
  StreamGate& operator=(const StreamGate&) = delete;

  // Holds work queued on the stream from now on, at most about a thousand kernels; then queueing blocks.
  // Opens a closed gate first.
  void close(cudaStream_t stream);
  // False: the limit released the stream before.
  bool open();

 private:
  // In mapped host memory.
  struct Words {
    unsigned opened = 0;   // number of openings
    unsigned gave_up = 0;  // the last turn that reached the limit
  };

  std::chrono::nanoseconds limit_;
  Words* words_ = nullptr;
  Words* on_gpu_ = nullptr;  // the same words
  cudaStream_t stream_ = nullptr;
  unsigned closed_ = 0;  // number of closings
};

}  // namespace twobw::device
