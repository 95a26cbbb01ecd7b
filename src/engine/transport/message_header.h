// What goes ahead of a message on a remote link: its tag, and the types and shapes of its tensors. As a
// tensor of one size, so that the receiver can wait for it knowing nothing.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "engine/transport/link.h"

namespace twobw::transport {

struct TensorShape {
  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> sizes;

  static void fields(auto& self, auto&& visit) { visit(self.type, self.sizes); }
  friend bool operator==(const TensorShape&, const TensorShape&) = default;
};
using TensorShapes = std::vector<TensorShape>;

TensorShapes shapes_of(const Tensors& tensors);
at::Tensor empty_of(const TensorShape& shape);

struct MessageHeader {
  bool ends = false;  // no message follows, nor belongs to it
  Tag tag{};
  bool regular = false;  // the shapes are those of every microbatch
  TensorShapes shapes;

  static void fields(auto& self, auto&& visit) {
    visit(self.ends, self.tag.kind, self.tag.index, self.regular, self.shapes);
  }
};

TensorShape header_shape();
at::Tensor to_tensor(const MessageHeader& header);
MessageHeader to_header(const at::Tensor& tensor);

}  // namespace twobw::transport
