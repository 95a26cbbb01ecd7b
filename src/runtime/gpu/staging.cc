#include "runtime/gpu/staging.h"

#include <cstring>

namespace twobw::runtime::gpu {
namespace {

using at::Tensor;
using device::check_cuda;

}  // namespace

Uploads::Uploads(std::int64_t count, cudaStream_t stream)
    : count_(count), stream_(stream), buffer_(static_cast<std::size_t>(kAhead * count)) {}

void Uploads::send(std::int64_t microbatch, const data::Batch& from, const data::Batch& to) {
  const auto place = static_cast<std::size_t>(microbatch % kAhead);
  if (sent_[place])
    check_cuda(cudaEventSynchronize(static_cast<cudaEvent_t>(sent_[place].get())), "cudaEventSynchronize");
  std::int64_t* through = buffer_.data() + static_cast<std::int64_t>(place) * count_;
  for (const data::Field field : architecture::kFields) {
    if (!to[field].defined()) continue;
    const Tensor tensor = from[field].contiguous();
    const std::size_t size = tensor.nbytes();
    std::memcpy(through, tensor.const_data_ptr(), size);
    check_cuda(cudaMemcpyAsync(to[field].mutable_data_ptr(), through, size, cudaMemcpyHostToDevice, stream_),
               "cudaMemcpyAsync");
    through += tensor.numel();
  }
  sent_[place] = device::record_stream_event();
}

Results::Results(cudaStream_t stream) : stream_(stream), buffer_(kAhead) {}

void Results::fetch_loss(std::int64_t update, const Tensor& loss) {
  fetch(&buffer_.data()[update % kAhead].loss, loss.const_data_ptr(), sizeof(double));
}

void Results::fetch_control(std::int64_t update, const optim::cuda::Control* control) {
  fetch(&buffer_.data()[update % kAhead].control, control, sizeof(optim::cuda::Control));
  fetched_[update] = device::record_stream_event();
}

const Results::Result& Results::await(std::int64_t update) {
  const auto fetched = fetched_.extract(update);
  check_cuda(cudaEventSynchronize(static_cast<cudaEvent_t>(fetched.mapped().get())), "an update");
  return buffer_.data()[update % kAhead];
}

void Results::fetch(void* to, const void* from, std::size_t size) {
  check_cuda(cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
}

}  // namespace twobw::runtime::gpu
