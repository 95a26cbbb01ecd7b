// What train.precision is called in LibTorch.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>

namespace twobw::device {

inline at::ScalarType number_format(const std::string& precision) {
  if (precision == "bf16") return at::kBFloat16;
  return precision == "fp16" ? at::kHalf : at::kFloat;
}

}  // namespace twobw::device
