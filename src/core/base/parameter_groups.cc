#include "core/base/parameter_groups.h"

#include <sstream>

#include "core/base/text.h"

namespace twobw {

std::optional<ParameterGroup> parse_group(std::string_view text) {
  std::istringstream words{std::string(text)};
  ParameterGroup group;
  if (!(words >> group.pattern) || group.pattern.find('=') != std::string::npos) return std::nullopt;
  std::string word;
  while (words >> word) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) return std::nullopt;
    const std::string key = word.substr(0, equals);
    const auto value = parse_number<double>(word.substr(equals + 1));
    if (!value || *value < 0) return std::nullopt;
    if (key == "lr" && !group.lr) {
      group.lr = value;
    } else if (key == "weight_decay" && !group.weight_decay) {
      group.weight_decay = value;
    } else {
      return std::nullopt;
    }
  }
  return group.lr || group.weight_decay ? std::optional(group) : std::nullopt;
}

bool matches(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern.front() == '*')
    return matches(pattern.substr(1), name) || (!name.empty() && matches(pattern, name.substr(1)));
  return !name.empty() && pattern.front() == name.front() && matches(pattern.substr(1), name.substr(1));
}

GroupValues group_values(const OptimizerConfig& config, std::string_view name, bool decays) {
  GroupValues values{.weight_decay = decays ? config.weight_decay : 0};
  for (const std::string& text : config.groups) {
    const std::optional<ParameterGroup> group = parse_group(text);
    if (!group || !matches(group->pattern, name)) continue;
    if (group->lr) values.rate = *group->lr / config.lr;
    if (group->weight_decay) values.weight_decay = *group->weight_decay;
    break;
  }
  return values;
}

}  // namespace twobw
