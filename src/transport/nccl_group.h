// Sums over the GPUs of a set, each of them a rank: the gradients of a stage's replicas; or the norms of all
// stages, where a rank has zeros in the places of the others, so that the sum rounds nothing.
#pragma once

#include <c10/cuda/CUDAStream.h>

#include <memory>

#include "device/stream_event.h"
#include "transport/link.h"
#include "transport/nccl.h"

namespace twobw::transport {

class NcclGroup {
 public:
  explicit NcclGroup(std::unique_ptr<Communicator> communicator);
  ~NcclGroup();  // waits for the sums that were begun, unless they were cancelled

  // Puts the sum over all ranks in place of each tensor, float or double, on every rank: all of them as one.
  // Begins after what the calling thread has queued so far and runs beside what it queues next; who uses the
  // tensors awaits the result first.
  [[nodiscard]] device::StreamEvent sum(const Tensors& tensors);

  // Gives up sums that other ranks will not come to. From any thread; the group is of no use then.
  void cancel() { communicator_->abort(); }

 private:
  std::unique_ptr<Communicator> communicator_;
  c10::cuda::CUDAStream stream_;
};

}  // namespace twobw::transport
