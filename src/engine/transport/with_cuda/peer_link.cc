#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <map>
#include <mutex>

#include "engine/device/gpu.h"
#include "engine/transport/link.h"
#include "engine/transport/stream_keep_alive.h"

namespace twobw::transport {
namespace {

using c10::cuda::CUDAStream;

// The receiver's thread queues the copies on a stream of the link. They wait for the sender's work and delay
// the receiver's later work, but not its earlier work. Replicas on several GPUs may receive a tied gradient.
class PeerLink final : public Link {
 public:
  explicit PeerLink(WaitHub& hub) : mailbox_(hub) {}
  ~PeerLink() override {
    for (const auto& [gpu, arrival] : arrivals_) cudaStreamSynchronize(arrival.stream);
  }

  void send(const Tag& tag, Tensors tensors) override {
    for (at::Tensor& tensor : tensors) tensor = tensor.contiguous();
    mailbox_.put(tag, {std::move(tensors), device::record_stream_event()});
  }

  Tensors receive(const Tag& tag) override {
    Message message = mailbox_.take(tag);
    std::lock_guard lock(mutex_);
    const CUDAStream compute = c10::cuda::getCurrentCUDAStream();
    Arrival& arrival = arrival_on(compute.device_index());
    device::await_stream_event(message.ready, arrival.stream);
    Tensors received;
    for (const at::Tensor& tensor : message.tensors) received.push_back(copy_on(tensor, arrival.stream));
    const device::StreamEvent there = device::record_stream_event(arrival.stream);
    device::await_stream_event(there, compute);
    arrival.keep_alive.keep(received, compute);
    arrival.leaving.keep(std::move(message.tensors), there);
    return received;
  }

 private:
  // On one GPU.
  struct Arrival {
    CUDAStream stream;
    LeavingTensors leaving;  // the senders' memory
    StreamKeepAlive keep_alive;
  };

  Arrival& arrival_on(c10::DeviceIndex gpu) {
    const auto found = arrivals_.find(gpu);
    if (found != arrivals_.end()) return found->second;
    const CUDAStream stream = c10::cuda::getStreamFromPool(/*isHighPriority=*/true, gpu);
    return arrivals_.emplace(gpu, Arrival{stream, {}, {}}).first->second;
  }

  static at::Tensor copy_on(const at::Tensor& tensor, const CUDAStream& stream) {
    // Allocates on the link's stream: memory freed by the receiver's stream would have to wait for it.
    const c10::cuda::CUDAStreamGuard guard(stream);
    at::Tensor copy = at::empty(tensor.sizes(), tensor.options().device(stream.device()));
    device::check_cuda(
        cudaMemcpyPeerAsync(copy.mutable_data_ptr(), copy.get_device(), tensor.const_data_ptr(),
                            tensor.get_device(), tensor.nbytes(), stream),
        "cudaMemcpyPeerAsync");
    return copy;
  }

  Mailbox mailbox_;
  std::mutex mutex_;
  std::map<c10::DeviceIndex, Arrival> arrivals_;
};

}  // namespace

std::unique_ptr<Link> peer_link(WaitHub& hub) {
  return std::make_unique<PeerLink>(hub);
}

}  // namespace twobw::transport
