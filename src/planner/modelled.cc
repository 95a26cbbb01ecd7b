#include "planner/modelled.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "planner/precision.h"

namespace twobw::planner {
namespace {

// Seconds of work that is bound by the rate of computation or by that of memory.
struct Roofline {
  double rate = 0, bandwidth = 0;

  double seconds(double flops, double bytes) const { return std::max(flops / rate, bytes / bandwidth); }
};

LayerCost cost(const LayerWork& layer, const DeviceKind& device, const Roofline& roof, double element,
               const StateBytes& state, double b) {
  const double weights = layer.matrix_flops > 0 ? layer.parameters : 0;  // else only rows of them are read
  const double flops = b * layer.matrix_flops, bytes = b * layer.matrix_bytes;
  const double rest = b * layer.element_bytes / roof.bandwidth;
  LayerCost cost;
  cost.forward = roof.seconds(flops, bytes + element * weights) + rest + device.overhead;
  cost.backward = roof.seconds(2 * flops, 2 * bytes + (element + 2 * state.gradients) * weights) +
                  1.5 * rest + 2 * device.overhead;
  cost.stash = b * layer.stash;
  cost.kept = b * layer.kept;
  cost.output = b * layer.output;
  cost.working = b * layer.working;
  return cost;
}

}  // namespace

double peak_rate(const DeviceKind& device, const std::string& precision) {
  const auto rate = device.rates.find(precision);
  if (rate != device.rates.end()) return rate->second;
  if (device.flops > 0) return device.flops;
  std::vector<std::string> known;
  for (const auto& [name, value] : device.rates) known.push_back(name);
  if (known.empty()) {
    fail_input(
        "the rate of device '{}' is not known, so its times cannot be modelled; give its tflops and "
        "memory_bandwidth, or a profile",
        device.name);
  }
  fail_input("device '{}' has no rate for {}; allowed: {}", device.name, precision, fmt::join(known, ", "));
}

double token_bytes(int context) {
  constexpr double kToken = 8;
  return 2 * kToken * context;
}

CostTable modelled_costs(const std::vector<LayerWork>& layers, const DeviceKind& device,
                         const std::string& precision, const StateBytes& state, int context,
                         const std::vector<int>& microbatches) {
  const Roofline roof{.rate = peak_rate(device, precision) * device.efficiency,
                      .bandwidth = device.memory_bandwidth};
  if (roof.bandwidth <= 0) {
    fail_input(
        "the memory bandwidth of device '{}' is not known, so its times cannot be modelled; give its "
        "memory_bandwidth, or a profile",
        device.name);
  }
  const double element = bytes_per_element(precision);
  CostTable table{.modelled = true};
  table.step_per_parameter =
      2 * (state.weights + state.master + state.gradients + state.optimizer) / roof.bandwidth;
  for (const int b : microbatches) {
    CostColumn column{.microbatch = b, .tokens = b * token_bytes(context)};
    for (const LayerWork& layer : layers)
      column.layers.push_back(cost(layer, device, roof, element, state, b));
    table.columns.push_back(std::move(column));
  }
  return table;
}

std::vector<std::string> kinds_of(const std::vector<LayerWork>& layers) {
  std::vector<std::string> kinds;
  for (const LayerWork& layer : layers) kinds.push_back(layer.kind);
  return kinds;
}

std::vector<LayerShape> shapes_of(const std::vector<LayerWork>& layers) {
  std::vector<LayerShape> shapes;
  for (const LayerWork& layer : layers)
    shapes.push_back({.kind = layer.kind, .parameters = layer.parameters, .tied = layer.tied});
  return shapes;
}

std::vector<LayerWork> describe_model(const ModelConfig& model, double bytes_per_element) {
  if (model.family == "gpt") return describe_gpt(model, bytes_per_element);
  fail_input("model.family is '{}'; allowed: gpt", model.family);
}

}  // namespace twobw::planner
