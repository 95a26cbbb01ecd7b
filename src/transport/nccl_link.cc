#include "transport/nccl_link.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <vector>

#include "base/error.h"
#include "device/gpu.h"
#include "transport/mailbox.h"
#include "transport/nccl.h"

namespace twobw::transport {
namespace {

using c10::cuda::CUDAStream;

// LibTorch's own streams, which live as long as the process: a tensor may be freed after the link, and its
// memory is used again only when the streams that used it are done.
struct End {
  explicit End(std::unique_ptr<Communicator> joined)
      : communicator(std::move(joined)),
        gpu(static_cast<c10::DeviceIndex>(communicator->gpu())),
        stream(c10::cuda::getStreamFromPool(/*isHighPriority=*/true, gpu)) {}

  std::unique_ptr<Communicator> communicator;
  c10::DeviceIndex gpu;
  CUDAStream stream;
};

class NcclLink final : public Link {
 public:
  NcclLink(Hub& hub, const std::vector<int>& gpus) : mailbox_(hub) {
    for (auto& communicator : Communicator::join(gpus)) ends_.emplace_back(std::move(communicator));
  }
  ~NcclLink() override {
    for (const End& end : ends_) cudaStreamSynchronize(end.stream);
  }

  void send(const Tag& tag, Tensors tensors) override {
    for (at::Tensor& tensor : tensors) {
      TWOBW_ASSERT(tensor.is_cuda() && tensor.get_device() == from().gpu, "{} of another device than cuda:{}",
                   describe(tag), from().gpu);
      tensor = tensor.contiguous();
    }
    mailbox_.put(tag, {std::move(tensors), device::record_stream_event(c10::cuda::getCurrentCUDAStream())});
  }

  Tensors receive(const Tag& tag) override {
    const Message message = mailbox_.take(tag);
    const Tensors received = room_for(message.tensors);
    device::await_stream_event(message.ready, from().stream);
    as_one([&] {
      for (std::size_t i = 0; i < received.size(); ++i) transfer(message.tensors[i], received[i]);
    });
    const CUDAStream compute = c10::cuda::getCurrentCUDAStream();
    device::await_stream_event(device::record_stream_event(to().stream), compute);
    for (const at::Tensor& tensor : message.tensors) tensor.record_stream(from().stream);
    for (const at::Tensor& tensor : received) tensor.record_stream(compute);
    return received;
  }

 private:
  const End& from() const { return ends_.front(); }
  const End& to() const { return ends_.back(); }

  // In the order of the link's stream: memory freed by the receiver's computation would have to wait for it.
  Tensors room_for(const Tensors& sent) const {
    const c10::cuda::CUDAStreamGuard guard(to().stream);
    Tensors room;
    for (const at::Tensor& tensor : sent)
      room.push_back(at::empty(tensor.sizes(), tensor.options().device(to().stream.device())));
    return room;
  }

  void transfer(const at::Tensor& sent, const at::Tensor& received) const {
    if (sent.nbytes() == 0) return;
    check_nccl(ncclSend(sent.const_data_ptr(), sent.nbytes(), ncclChar, to().communicator->rank(),
                        from().communicator->get(), from().stream),
               "ncclSend");
    check_nccl(ncclRecv(received.mutable_data_ptr(), received.nbytes(), ncclChar, from().communicator->rank(),
                        to().communicator->get(), to().stream),
               "ncclRecv");
  }

  Mailbox mailbox_;
  std::vector<End> ends_;  // one where both are on the same GPU
};

}  // namespace

std::unique_ptr<Link> nccl_link(Hub& hub, int from_gpu, int to_gpu) {
  return std::make_unique<NcclLink>(
      hub, from_gpu == to_gpu ? std::vector{from_gpu} : std::vector{from_gpu, to_gpu});
}

}  // namespace twobw::transport
