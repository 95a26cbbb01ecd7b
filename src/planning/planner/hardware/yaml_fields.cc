#include "planning/planner/hardware/yaml_fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/config_values.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace twobw {

Fields::Fields(const YAML::Node& map, std::string file, std::string path)
    : map_(map), file_(std::move(file)), path_(std::move(path)) {}

std::string Fields::path_of(const std::string& key) const {
  return path_.empty() ? key : path_ + "." + key;
}

std::vector<std::string> Fields::keys() const {
  std::vector<std::string> all;
  for (const auto& entry : map_) all.push_back(describe(entry.first));
  return all;
}

void Fields::only(const std::vector<std::string>& known) const {
  std::set<std::string> seen;
  for (const auto& entry : map_) {
    const std::string key = describe(entry.first);
    const std::string where = fmt::format("{}:{}", file_, entry.first.Mark().line + 1);
    if (!seen.insert(key).second) {
      fail_input("{} is given twice, the second time at {}; it must be given once", path_of(key), where);
    }
    if (std::ranges::find(known, key) != known.end()) continue;
    const std::string best = nearest(key, known);
    fail_input("unknown key '{}' at {}; {}", path_of(key), where,
               best.empty()
                   ? fmt::format("{} has {}", path_.empty() ? "the top level" : path_, fmt::join(known, ", "))
                   : fmt::format("did you mean '{}'?", path_of(best)));
  }
}

void Fields::refuse(const std::string& key, std::string_view must) const {
  const YAML::Node value = node(key);
  if (!value.IsDefined()) fail_input("{} is missing in {}; it must {}", path_of(key), file_, must);
  const std::string text = value.IsNull() ? "empty" : shown(describe(value));
  fail_input("{} is {} at {}:{}; it must {}", path_of(key), text, file_, value.Mark().line + 1, must);
}

double Fields::number(const std::string& key, const Quantity& quantity,
                      std::optional<double> fallback) const {
  if (!has(key) && fallback) return *fallback;
  const auto written = has(key) ? parse_scalar<std::string>(node(key)) : std::nullopt;
  const auto value = written ? quantity.parse(*written) : std::nullopt;
  if (!value || !std::isfinite(*value) || !quantity.holds(*value)) refuse(key, "be " + quantity.allowed);
  return *value;
}

std::string Fields::text(const std::string& key, const std::string& fallback) const {
  if (!has(key)) return fallback;
  const auto value = parse_scalar<std::string>(node(key));
  if (!value || value->empty()) refuse(key, "be text, not empty");
  return *value;
}

bool Fields::flag(const std::string& key, bool fallback) const {
  const std::string value = text(key, fallback ? "true" : "false");
  if (value != "true" && value != "false") refuse(key, "be true or false");
  return value == "true";
}

Fields Fields::map(const std::string& key) const {
  if (!has(key) || !node(key).IsMap()) refuse(key, "be a map of keys");
  return {node(key), file_, path_of(key)};
}

std::vector<Fields> Fields::maps(const std::string& key) const {
  const YAML::Node list = node(key);
  const bool good =
      list.IsDefined() && list.IsSequence() && list.size() > 0 &&
      std::all_of(list.begin(), list.end(), [](const YAML::Node& each) { return each.IsMap(); });
  if (!good) refuse(key, "be a list of at least one map of keys");
  std::vector<Fields> all;
  for (std::size_t i = 0; i < list.size(); ++i) {
    all.emplace_back(list[i], file_, fmt::format("{}[{}]", path_of(key), i));
  }
  return all;
}

}  // namespace twobw
