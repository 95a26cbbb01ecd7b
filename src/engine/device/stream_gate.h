// Holds a stream back until all that is to run there in a row is queued, so that the GPU does not wait for
// the thread that queues it. Of one thread at a time, and of one GPU and the slices of it.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>

namespace twobw::device {

class StreamGate {
 public:
  // Nothing is held for longer, so that a thread which waits for the GPU before it opens the gate goes on.
  static constexpr std::chrono::milliseconds kLimit{200};

  explicit StreamGate(std::chrono::nanoseconds limit = kLimit);
  ~StreamGate();  // opens it, and waits for the stream
  StreamGate(const StreamGate&) = delete;
  StreamGate& operator=(const StreamGate&) = delete;

  // What is queued on the stream from now on waits until the gate is open: about a thousand kernels, after
  // which queueing waits too. Opens it first where it is closed.
  void close(cudaStream_t stream);
  // False: what was queued has gone on before, by the limit.
  bool open();

 private:
  // In memory of the host that the GPU reads and writes.
  struct Words {
    unsigned opened = 0;   // how many times
    unsigned gave_up = 0;  // the last time that the limit was reached
  };

  std::chrono::nanoseconds limit_;
  Words* words_ = nullptr;
  Words* on_gpu_ = nullptr;  // the same
  cudaStream_t stream_ = nullptr;
  unsigned closed_ = 0;  // how many times
};

}  // namespace twobw::device
