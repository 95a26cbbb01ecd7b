#include "core/base/precision.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"

namespace twobw {

const std::vector<std::string>& precisions() {
  static const std::vector<std::string> all = {"fp32", "fp16", "bf16"};
  return all;
}

double bytes_per_element(const std::string& precision) {
  if (std::ranges::find(precisions(), precision) == precisions().end()) {
    fail_input("the precision is '{}'; allowed: {}", precision, fmt::join(precisions(), ", "));
  }
  return precision == "fp32" ? 4 : 2;
}

}  // namespace twobw
