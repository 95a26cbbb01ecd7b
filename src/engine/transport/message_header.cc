#include "engine/transport/message_header.h"

#include <cstring>

#include "core/base/codec.h"

namespace twobw::transport {
namespace {

constexpr std::int64_t kHeaderBytes = 1024;

}  // namespace

TensorShapes shapes_of(const Tensors& tensors) {
  TensorShapes shapes;
  for (const at::Tensor& tensor : tensors)
    shapes.push_back({.type = tensor.scalar_type(), .sizes = tensor.sizes().vec()});
  return shapes;
}

at::Tensor empty_of(const TensorShape& shape) {
  return at::empty(shape.sizes, at::TensorOptions(shape.type));
}

TensorShape header_shape() {
  return {.type = at::kByte, .sizes = {kHeaderBytes}};
}

at::Tensor to_tensor(const MessageHeader& header) {
  const std::string bytes = to_bytes(header);
  TWOBW_ASSERT(std::ssize(bytes) <= kHeaderBytes, "{} has {} tensors, too many for a message",
               describe(header.tag), header.shapes.size());
  at::Tensor tensor = at::zeros({kHeaderBytes}, at::kByte);
  std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

MessageHeader to_header(const at::Tensor& tensor) {
  return Decoder({static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()}).take<MessageHeader>();
}

}  // namespace twobw::transport
