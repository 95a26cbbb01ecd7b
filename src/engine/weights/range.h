// A part of a flat buffer.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace twobw::weights {

struct Range {
  std::int64_t begin = 0, count = 0;

  std::int64_t end() const { return begin + count; }
  bool holds(std::int64_t element) const { return element >= begin && element < end(); }
  // That part of the buffer, if it is one.
  at::Tensor of(const at::Tensor& flat) const { return flat.defined() ? flat.narrow(0, begin, count) : flat; }

  friend bool operator==(const Range&, const Range&) = default;
};

}  // namespace twobw::weights
