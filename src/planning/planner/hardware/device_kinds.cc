#include "planning/planner/hardware/device_kinds.h"

#include <fmt/ranges.h>

#include "core/base/config_values.h"
#include "core/base/kinds.h"
#include "planning/planner/hardware/units.h"

namespace twobw::planner {
namespace {

bool is_positive(double value) {
  return value > 0;
}

const Quantity kMemory = {parse_bytes, is_positive, "a size above 0, such as 24GiB"};
const Quantity kTeraflops = {parse_number<double>, is_positive,
                             "a number above 0, or one for each precision, such as {fp32: 15.7, fp16: 125}"};
const Quantity kMemoryBandwidth = {parse_rate, is_positive, "a rate above 0, such as 900GB/s"};
const Quantity kEfficiency = {parse_number<double>, [](double value) { return value > 0 && value <= 1; },
                              "a number above 0 and at most 1"};
const Quantity kOverhead = {parse_seconds, [](double value) { return value >= 0; },
                            "a time of at least 0, such as 20us"};
const Quantity kSpeed = {parse_number<double>, is_positive, "a number above 0"};

constexpr double kTera = 1e12;

void read_rates(const Fields& fields, DeviceKind& kind) {
  if (!fields.has("tflops")) return;
  if (!fields.node("tflops").IsMap()) {
    kind.flops = kTera * fields.number("tflops", kTeraflops);
    return;
  }
  const Fields rates = fields.map("tflops");
  rates.only(precisions());
  for (const std::string& precision : rates.keys()) {
    kind.rates[precision] = kTera * rates.number(precision, kTeraflops);
  }
}

DeviceKind read_kind(const std::string& name, const Fields& fields) {
  fields.only({"memory", "tflops", "memory_bandwidth", "efficiency", "overhead", "speed"});
  DeviceKind kind{.name = name};
  kind.memory = fields.number("memory", kMemory);
  read_rates(fields, kind);
  kind.memory_bandwidth = fields.number("memory_bandwidth", kMemoryBandwidth, kind.memory_bandwidth);
  kind.efficiency = fields.number("efficiency", kEfficiency, kind.efficiency);
  kind.overhead = fields.number("overhead", kOverhead, kind.overhead);
  kind.speed = fields.number("speed", kSpeed, kind.speed);
  return kind;
}

}  // namespace

std::vector<DeviceKind> read_kinds(const Fields& kinds) {
  kinds.only(kinds.keys());  // none given twice
  std::vector<DeviceKind> all;
  for (const std::string& name : kinds.keys()) all.push_back(read_kind(name, kinds.map(name)));
  return all;
}

std::string print_kind(const DeviceKind& kind) {
  const DeviceKind usual;
  std::vector<std::string> parts = {"memory: " + print_bytes(kind.memory)};
  if (kind.flops > 0) parts.push_back(fmt::format("tflops: {}", kind.flops / kTera));
  if (!kind.rates.empty()) {
    std::vector<std::string> rates;
    for (const auto& [precision, rate] : kind.rates)
      rates.push_back(fmt::format("{}: {}", precision, rate / kTera));
    parts.push_back(fmt::format("tflops: {{{}}}", fmt::join(rates, ", ")));
  }
  if (kind.memory_bandwidth > 0) parts.push_back("memory_bandwidth: " + print_rate(kind.memory_bandwidth));
  if (kind.efficiency != usual.efficiency) parts.push_back(fmt::format("efficiency: {}", kind.efficiency));
  if (kind.overhead != usual.overhead) parts.push_back("overhead: " + print_seconds(kind.overhead));
  if (kind.speed != usual.speed) parts.push_back(fmt::format("speed: {}", kind.speed));
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

}  // namespace twobw::planner
