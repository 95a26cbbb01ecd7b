#include "engine/transport/nccl_path.h"

#include <c10/cuda/CUDAGuard.h>

#include <deque>
#include <mutex>
#include <utility>

#include "core/base/error.h"
#include "engine/device/gpu.h"
#include "engine/transport/in_use.h"

namespace twobw::transport {
namespace {

class NcclPath final : public GpuPath {
 public:
  NcclPath(std::shared_ptr<NcclChannel> channel, int peer) : channel_(std::move(channel)), peer_(peer) {}

  void await(const device::StreamEvent& ready) override { channel_->await(ready); }

  void send(Tensors tensors) override {
    const c10::cuda::CUDAStreamGuard guard(channel_->stream());
    for (at::Tensor& tensor : tensors) {
      TWOBW_ASSERT(tensor.is_cuda(), "a tensor on the CPU, to be sent from a GPU");
      tensor = tensor.to(channel_->stream().device());
    }
    channel_->queue([&](const NcclChannel::Group& group) {
      for (const at::Tensor& tensor : tensors) {
        if (tensor.nbytes() > 0) group.send(tensor.const_data_ptr(), tensor.nbytes(), peer_);
      }
    });
    leaving_.push_back({std::move(tensors), channel_->record()});
    while (!leaving_.empty() &&
           cudaEventQuery(static_cast<cudaEvent_t>(leaving_.front().gone.get())) == cudaSuccess)
      leaving_.pop_front();
  }

  // Memory in the order of the channel's stream: what the worker's computation frees would have to wait for
  // it.
  Message receive(const TensorShapes& shapes) override {
    const c10::cuda::CUDAStreamGuard guard(channel_->stream());
    Message message;
    for (const TensorShape& shape : shapes)
      message.tensors.push_back(
          at::empty(shape.sizes, at::TensorOptions(shape.type).device(channel_->stream().device())));
    channel_->queue([&](const NcclChannel::Group& group) {
      for (const at::Tensor& tensor : message.tensors) {
        if (tensor.nbytes() > 0) group.receive(tensor.mutable_data_ptr(), tensor.nbytes(), peer_);
      }
    });
    message.ready = channel_->record();
    return message;
  }

  Tensors take(Message message) const override {
    const c10::cuda::CUDAStream compute = c10::cuda::getCurrentCUDAStream();
    const bool is_here = compute.device() == channel_->stream().device();
    const auto there = c10::cuda::getCurrentCUDAStream(channel_->stream().device_index());
    device::await_stream_event(message.ready, compute);
    if (!is_here) device::await_stream_event(message.ready, there);  // where it is copied
    {
      const c10::cuda::CUDAGuard guard(there.device());
      std::lock_guard lock(mutex_);
      in_use_.take(message.tensors, there);
    }
    if (is_here) return std::move(message.tensors);
    for (at::Tensor& tensor : message.tensors) tensor = tensor.to(compute.device());
    return std::move(message.tensors);
  }

  void drain() override {
    channel_->drain();
    leaving_.clear();
  }

 private:
  // Tensors whose transfers may not have ended.
  struct Leaving {
    Tensors tensors;
    device::StreamEvent gone;
  };

  std::shared_ptr<NcclChannel> channel_;
  int peer_;
  std::deque<Leaving> leaving_;
  mutable std::mutex mutex_;
  mutable InUse in_use_;  // under the lock: workers take
};

}  // namespace

std::unique_ptr<GpuPath> nccl_path(std::shared_ptr<NcclChannel> channel, int peer) {
  return std::make_unique<NcclPath>(std::move(channel), peer);
}

}  // namespace twobw::transport
