#include "engine/transport/message_header.h"

#include <algorithm>

#include "core/base/error.h"

namespace twobw::transport {
namespace {

constexpr std::int64_t kHeaderNumbers = 128;

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
  return {.type = at::kLong, .sizes = {kHeaderNumbers}};
}

at::Tensor to_tensor(const MessageHeader& header) {
  std::vector<std::int64_t> numbers = {header.ends, static_cast<std::int64_t>(header.tag.kind),
                                       header.tag.index, header.regular, std::ssize(header.shapes)};
  for (const TensorShape& shape : header.shapes) {
    numbers.push_back(static_cast<std::int64_t>(shape.type));
    numbers.push_back(std::ssize(shape.sizes));
    numbers.insert(numbers.end(), shape.sizes.begin(), shape.sizes.end());
  }
  TWOBW_ASSERT(std::ssize(numbers) <= kHeaderNumbers, "{} has {} tensors, too many for a message",
               describe(header.tag), header.shapes.size());
  at::Tensor tensor = at::zeros({kHeaderNumbers}, at::kLong);
  std::ranges::copy(numbers, tensor.mutable_data_ptr<std::int64_t>());
  return tensor;
}

MessageHeader to_header(const at::Tensor& tensor) {
  const std::int64_t* number = tensor.const_data_ptr<std::int64_t>();
  MessageHeader header{.ends = *number++ != 0};
  header.tag.kind = static_cast<Tag::Kind>(*number++);
  header.tag.index = *number++;
  header.regular = *number++ != 0;
  header.shapes.resize(*number++);
  for (TensorShape& shape : header.shapes) {
    shape.type = static_cast<at::ScalarType>(*number++);
    const std::int64_t dimensions = *number++;
    shape.sizes.assign(number, number + dimensions);
    number += dimensions;
  }
  return header;
}

}  // namespace twobw::transport
