#include "planning/planner/costs/roofline.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/kinds.h"
#include "planning/planner/costs/state_bytes.h"

namespace twobw::planner {
namespace {

// Seconds of work that is bound by the rate of computation or by that of memory.
struct Roofline {
  double rate = 0, bandwidth = 0;

  double seconds(double flops, double bytes) const { return std::max(flops / rate, bytes / bandwidth); }
};

LayerCost cost(const architecture::Layer& layer, const DeviceKind& device, const Roofline& roof,
               const StateBytes& state, const architecture::Extent& extent) {
  if (!layer.work) {
    fail_input("the layer {} has no description of its work, so its times cannot be modelled; give a profile",
               layer.kind);
  }
  const architecture::Work work = layer.work(extent);
  // Else only rows of them are read.
  const double weights = work.matrix_flops > 0 ? architecture::parameter_count(layer) : 0;
  const double rest = work.element_bytes / roof.bandwidth;
  LayerCost cost;
  cost.forward =
      roof.seconds(work.matrix_flops, work.matrix_bytes + extent.element * weights) + rest + device.overhead;
  cost.backward = roof.seconds(2 * work.matrix_flops,
                               2 * work.matrix_bytes + (extent.element + 2 * state.gradients) * weights) +
                  1.5 * rest + 2 * device.overhead;
  cost.saved_bytes = work.saved_bytes;
  cost.kept = work.kept;
  cost.output = work.output;
  cost.working = work.working;
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
  fail_input(
      "train.precision is {}, for which device '{}' has no rate; allowed: {}, or a profile measured in {}",
      precision, device.name, fmt::join(known, ", "), precision);
}

double token_bytes(int context) {
  constexpr double kToken = 8;
  return kToken * context;
}

CostTable modelled_costs(const architecture::Model& model, const DeviceKind& device,
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
  // Reads the same state as a step, and writes the predicted weights.
  table.predict_per_parameter = (4 + state.gradients + state.optimizer + state.weights) / roof.bandwidth;
  for (const int b : microbatches) {
    CostColumn column{.microbatch = b, .tokens = b * token_bytes(context)};
    const architecture::Extent extent{
        .sequences = static_cast<double>(b), .context = static_cast<double>(context), .element = element};
    for (const architecture::Layer& layer : model)
      column.layers.push_back(cost(layer, device, roof, state, extent));
    table.columns.push_back(std::move(column));
  }
  return table;
}

}  // namespace twobw::planner
