#include "runtime/gpu/staging.h"

#include <cstring>

namespace twobw::runtime::gpu {
namespace {

using at::Tensor;
using device::check_cuda;

}  // namespace

Uploads::Uploads(std::int64_t tokens, cudaStream_t stream)
    : tokens_(tokens), stream_(stream), buffer_(kAhead * 2 * tokens) {}

void Uploads::send(std::int64_t microbatch, const models::Pass& from, const models::Pass& to) {
  const auto place = static_cast<std::size_t>(microbatch % kAhead);
  if (sent_[place])
    check_cuda(cudaEventSynchronize(static_cast<cudaEvent_t>(sent_[place].get())), "cudaEventSynchronize");
  std::int64_t* through = buffer_.data() + place * 2 * tokens_;
  if (to.tokens.defined()) copy(from.tokens.contiguous(), to.tokens, through);
  if (to.targets.defined()) copy(from.targets.contiguous(), to.targets, through + tokens_);
  sent_[place] = device::record_stream_event();
}

void Uploads::copy(const Tensor& from, const Tensor& to, std::int64_t* through) {
  const std::size_t size = from.nbytes();
  std::memcpy(through, from.const_data_ptr<std::int64_t>(), size);
  check_cuda(cudaMemcpyAsync(to.mutable_data_ptr(), through, size, cudaMemcpyHostToDevice, stream_),
             "cudaMemcpyAsync");
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
