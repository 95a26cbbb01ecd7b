// Parameter groups: a learning rate or a weight decay for parameters whose names match a pattern, such as
// "embedding.* lr=1e-4 weight_decay=0".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/base/config.h"

namespace twobw {

struct ParameterGroup {
  std::string pattern;            // * matches any text
  std::optional<double> lr = {};  // peak, as optimizer.lr
  std::optional<double> weight_decay = {};
};

// Null if the text does not have this form.
std::optional<ParameterGroup> parse_group(std::string_view text);

bool matches(std::string_view pattern, std::string_view name);

// Values of one parameter: of the first matching group, else of the configuration. `decays`: weight decay
// applies even if no group sets it.
struct GroupValues {
  double rate = 1;  // times the learning rate
  double weight_decay = 0;
};
GroupValues group_values(const OptimizerConfig& config, std::string_view name, bool decays);

}  // namespace twobw
