#include "planning/planner/hardware/units.h"

#include <span>

#include "core/base/config_values.h"

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

}  // namespace twobw
