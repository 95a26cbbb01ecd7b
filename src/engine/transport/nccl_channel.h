// GPUs of several processes that exchange tensors, as one of them sees it: a communicator and a stream of its
// own. None of its calls holds a thread for good: all end when it is aborted.
#pragma once

#include <c10/cuda/CUDAStream.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "engine/device/stream_event.h"

namespace twobw::transport {

// What all channels of a pipeline have in common.
struct NcclShared {
  std::chrono::duration<double> timeout;
  std::atomic<bool> aborted = false;
};

class NcclChannel {
 public:
  // Returns when all ranks of the set have made theirs. `what`: it carries, for messages. Throws RunError,
  // Cancelled.
  NcclChannel(std::shared_ptr<NcclShared> shared, const ncclUniqueId& id, int ranks, int rank, int gpu,
              std::string what);
  ~NcclChannel();  // not before what was queued has ended in all processes, or was aborted
  NcclChannel(const NcclChannel&) = delete;
  NcclChannel& operator=(const NcclChannel&) = delete;

  const c10::cuda::CUDAStream& stream() const { return stream_; }
  c10::DeviceIndex gpu() const { return stream_.device_index(); }
  int size() const { return size_; }  // ranks
  int rank() const { return rank_; }

  // Queues sends and receives as one. Throws Cancelled once aborted.
  class Group {
   public:
    void send(const void* data, std::size_t bytes, int to) const;
    void receive(void* data, std::size_t bytes, int from) const;

   private:
    friend class NcclChannel;
    ncclComm_t communicator;
    cudaStream_t stream;
  };
  void queue(const std::function<void(const Group&)>& calls);
  // The end of all that is queued on the stream, which is to come within the timeout.
  device::StreamEvent record();
  // Blocks the thread; throws Cancelled.
  void await(const device::StreamEvent& ready) const;
  void drain();

  // For the thread that watches. What has gone wrong; empty: nothing.
  std::string problem();
  // Once aborted or at its end: ends what is queued.
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  struct Pending {
    device::StreamEvent end;
    Clock::time_point since;
  };
  void settle(ncclResult_t result, const char* what) const;
  bool is_aborted() const { return shared_->aborted.load(); }

  std::shared_ptr<NcclShared> shared_;
  std::string what_;
  int size_, rank_;
  c10::cuda::CUDAStream stream_;
  std::mutex mutex_;  // of the communicator
  ncclComm_t communicator_ = nullptr;
  std::mutex pending_mutex_;
  std::deque<Pending> pending_;
};

}  // namespace twobw::transport
