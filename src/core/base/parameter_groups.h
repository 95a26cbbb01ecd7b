// Parameters with a learning rate or a weight decay of their own, chosen by the pattern of their names:
// "embedding.* lr=1e-4 weight_decay=0".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/base/config.h"

namespace twobw {

struct ParameterGroup {
  std::string pattern;            // * stands for any text
  std::optional<double> lr = {};  // at its height, as optimizer.lr
  std::optional<double> weight_decay = {};
};

// Nothing where the text is not of that form.
std::optional<ParameterGroup> parse_group(std::string_view text);

bool matches(std::string_view pattern, std::string_view name);

// The values of one parameter: of the first matching group, else of the configuration. `decays`: whether
// weight decay applies unless a group sets it.
struct GroupValues {
  double rate = 1;  // times the learning rate
  double weight_decay = 0;
};
GroupValues group_values(const OptimizerConfig& config, std::string_view name, bool decays);

}  // namespace twobw
