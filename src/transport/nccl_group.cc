#include "transport/nccl_group.h"

#include "base/error.h"
#include "device/gpu.h"

namespace twobw::transport {
namespace {

ncclDataType_t type_of(const at::Tensor& tensor) {
  const bool is_double = tensor.scalar_type() == at::kDouble;
  TWOBW_ASSERT(
      tensor.is_cuda() && tensor.is_contiguous() && (is_double || tensor.scalar_type() == at::kFloat),
      "a sum of {} {}", tensor.is_contiguous() ? "whole" : "strided", tensor.toString());
  return is_double ? ncclDouble : ncclFloat;
}

}  // namespace

NcclGroup::NcclGroup(std::unique_ptr<Communicator> communicator)
    : communicator_(std::move(communicator)),
      stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true,
                                           static_cast<c10::DeviceIndex>(communicator_->gpu()))) {}

NcclGroup::~NcclGroup() {
  cudaStreamSynchronize(stream_);
}

device::StreamEvent NcclGroup::sum(const Tensors& tensors) {
  ncclComm_t communicator = communicator_->get();
  device::await_stream_event(device::record_stream_event(c10::cuda::getCurrentCUDAStream()), stream_);
  as_one([&] {
    for (const at::Tensor& tensor : tensors) {
      void* data = tensor.mutable_data_ptr();
      check_nccl(ncclAllReduce(data, data, tensor.numel(), type_of(tensor), ncclSum, communicator, stream_),
                 "ncclAllReduce");
    }
  });
  for (const at::Tensor& tensor : tensors) tensor.record_stream(stream_);
  return device::record_stream_event(stream_);
}

}  // namespace twobw::transport
