#include "planning/planner/hardware/yaml_fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "core/base/config_values.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace twobw {
namespace {

// A value is number * times / over: one of the two is 1, so that 5us is 5e-6 to the last bit.
struct Unit {
  std::string_view suffix;
  double times = 1, over = 1;
};

constexpr double kKi = 1024, kMi = kKi * 1024, kGi = kMi * 1024, kTi = kGi * 1024;

constexpr Unit kBytes[] = {{"TiB", kTi}, {"GiB", kGi}, {"MiB", kMi}, {"KiB", kKi}, {"TB", 1e12},
                           {"GB", 1e9},  {"MB", 1e6},  {"KB", 1e3},  {"kB", 1e3},  {"B"}};
constexpr Unit kRates[] = {
    {"TB/s", 1e12},      {"GB/s", 1e9},        {"MB/s", 1e6},       {"KB/s", 1e3},
    {"kB/s", 1e3},       {"TiB/s", kTi},       {"GiB/s", kGi},      {"MiB/s", kMi},
    {"KiB/s", kKi},      {"Tbit/s", 1e12 / 8}, {"Gbit/s", 1e9 / 8}, {"Mbit/s", 1e6 / 8},
    {"Kbit/s", 1e3 / 8}, {"kbit/s", 1e3 / 8},  {"bit/s", 1, 8},     {"B/s"}};
constexpr Unit kSeconds[] = {{"ms", 1, 1e3}, {"us", 1, 1e6}, {"ns", 1, 1e9}, {"s"}};

std::optional<double> parse(std::string_view text, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    if (!text.ends_with(unit.suffix)) continue;
    std::string_view figure = text.substr(0, text.size() - unit.suffix.size());
    if (figure.ends_with(' ')) figure.remove_suffix(1);
    const auto number = parse_number<double>(figure);
    if (number) return *number * unit.times / unit.over;
  }
  return parse_number<double>(text);
}

// In the unit of the shortest figure that reads back exactly; the last unit's always does.
std::string print(double value, std::span<const Unit> units) {
  std::string best_figure = fmt::format("{}", value), best = best_figure + std::string(units.back().suffix);
  for (const Unit& unit : units) {
    const std::string figure = fmt::format("{}", value / unit.times * unit.over);
    const std::string text = figure + std::string(unit.suffix);
    if (figure.size() >= best_figure.size() || parse(text, units) != value) continue;
    best_figure = figure;
    best = text;
  }
  return best;
}

}  // namespace

std::optional<double> parse_bytes(std::string_view text) {
  return parse(text, kBytes);
}
std::optional<double> parse_rate(std::string_view text) {
  return parse(text, kRates);
}
std::optional<double> parse_seconds(std::string_view text) {
  return parse(text, kSeconds);
}

std::string print_bytes(double bytes) {
  return print(bytes, kBytes);
}
std::string print_rate(double bytes_per_second) {
  return print(bytes_per_second, kRates);
}
std::string print_seconds(double seconds) {
  return print(seconds, kSeconds);
}

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
