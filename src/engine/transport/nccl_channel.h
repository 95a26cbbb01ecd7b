// One rank's end of an NCCL communicator, with a stream of its own, and the collectives on it. No call blocks
// forever: all end on abort.
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
#include <vector>

#include "engine/device/clock.h"
#include "engine/transport/gpu_paths.h"

namespace twobw::transport {

// Throws RunError that names the call if `result` is an error.
void check_nccl(ncclResult_t result, const char* what);

// Id of a new communicator: one process makes it, all join by it.
ncclUniqueId make_nccl_id();

// State shared by all channels of a pipeline.
struct NcclShared {
  std::chrono::duration<double> timeout;
  std::atomic<bool> aborted = false;
};

class NcclChannel {
 public:
  // Returns when all ranks have joined. `what`: the traffic, for error messages. Throws RunError, Cancelled.
  NcclChannel(std::shared_ptr<NcclShared> shared, const ncclUniqueId& id, int ranks, int rank, int gpu,
              std::string what);
  ~NcclChannel();  // only after queued transfers have finished in all processes, or were aborted

  const c10::cuda::CUDAStream& stream() const { return stream_; }
  c10::DeviceIndex gpu() const { return stream_.device_index(); }
  int size() const { return size_; }  // ranks
  int rank() const { return rank_; }

  // Queues sends and receives as one group. Throws Cancelled after an abort.
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
  // Event of the end of all queued work, which must finish within the timeout.
  device::StreamEvent record();
  // Both block; they throw Cancelled.
  void await(const device::StreamEvent& ready) const;
  void drain();

  // For the watching thread: the failure, or empty.
  std::string problem();
  // After an abort, or at the end: aborts queued work and frees the communicator.
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

// All-reduce and all-gather over the replicas of a stage that several processes have on GPUs, on one channel
// each.
//
// Every process adds a part of the buffers, as in remote_sum.h: it receives that part from all replicas, adds
// in the order of the replicas, as a sum within one process does, and sends the sum to the others; a range
// with an owner stays with the owner.
//
// `ranks`: of each replica, ascending; those of `own` are here. `ranges` begin on multiples of 16 bytes.
std::unique_ptr<GpuAdder> nccl_adder(std::shared_ptr<NcclChannel> channel, std::vector<int> ranks, int own,
                                     SumRanges ranges = {});
// `parts`: by replica.
std::unique_ptr<GpuGatherer> nccl_gatherer(std::shared_ptr<NcclChannel> channel, std::vector<int> ranks,
                                           int own, std::vector<weights::Range> parts);

}  // namespace twobw::transport
