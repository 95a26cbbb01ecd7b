#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <deque>
#include <optional>

#include "device/gpu.h"
#include "transport/link.h"
#include "transport/mailbox.h"

namespace twobw::transport {
namespace {

using c10::cuda::CUDAStream;

// The receiver's thread queues the copies, on a stream of the link's own: they wait for the sender's work and
// hold up what the receiver queues next, but not what it has queued before.
class PeerLink final : public Link {
 public:
  explicit PeerLink(Hub& hub) : mailbox_(hub) {}
  ~PeerLink() override {
    if (stream_) cudaStreamSynchronize(*stream_);
  }

  void send(const Tag& tag, Tensors tensors) override {
    for (at::Tensor& tensor : tensors) tensor = tensor.contiguous();
    mailbox_.put(tag, {std::move(tensors), device::record_ready()});
  }

  void expect(const Tag&) override {}

  Tensors receive(const Tag& tag) override {
    Message message = mailbox_.take(tag);
    const CUDAStream compute = c10::cuda::getCurrentCUDAStream();
    if (!stream_) stream_ = c10::cuda::getStreamFromPool(/*isHighPriority=*/true, compute.device_index());
    device::await_ready(message.ready, *stream_);
    Tensors received;
    for (const at::Tensor& tensor : message.tensors) received.push_back(bring(tensor));
    const device::Ready there = device::record_ready(*stream_);
    device::await_ready(there, compute);
    for (const at::Tensor& tensor : received) tensor.record_stream(compute);
    keep(std::move(message.tensors), there);
    return received;
  }

 private:
  // Tensors whose copies may not be done.
  struct Leaving {
    Tensors tensors;
    device::Ready gone;
  };

  at::Tensor bring(const at::Tensor& tensor) const {
    // In the order of the link's stream: memory freed by the receiver's computation would have to wait for
    // it.
    const c10::cuda::CUDAStreamGuard guard(*stream_);
    at::Tensor copy = at::empty(tensor.sizes(), tensor.options().device(stream_->device()));
    device::check_cuda(
        cudaMemcpyPeerAsync(copy.mutable_data_ptr(), copy.get_device(), tensor.const_data_ptr(),
                            tensor.get_device(), tensor.nbytes(), *stream_),
        "cudaMemcpyPeerAsync");
    return copy;
  }

  // The sender's memory must not be used again before it is copied.
  void keep(Tensors tensors, const device::Ready& gone) {
    leaving_.push_back({std::move(tensors), gone});
    while (cudaEventQuery(static_cast<cudaEvent_t>(leaving_.front().gone.get())) == cudaSuccess) {
      leaving_.pop_front();
      if (leaving_.empty()) return;
    }
  }

  Mailbox mailbox_;
  std::optional<CUDAStream> stream_;
  std::deque<Leaving> leaving_;
};

}  // namespace

std::unique_ptr<Link> peer_link(Hub& hub) {
  return std::make_unique<PeerLink>(hub);
}

}  // namespace twobw::transport
