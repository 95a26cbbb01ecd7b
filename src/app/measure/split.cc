#include "app/measure/split.h"

#include <algorithm>

#include "app/measure/profiler.h"
#include "core/base/error.h"
#include "planning/architecture/layer.h"
#include "planning/planner/search/search.h"

namespace twobw::measure {
namespace {

// Costs at the configuration's microbatch size.
planner::CostTable measure_costs(const runtime::Setup& setup) {
  // Above a few hundred tokens, time is proportional to tokens in every layer.
  constexpr int kEnoughTokens = 512;
  const int enough = (kEnoughTokens + setup.config.model.context - 1) / setup.config.model.context;
  const bool on_gpu = setup.devices.front().gpu.has_value();  // half idle with few tokens
  const int wanted = setup.config.pipeline.microbatch;
  const int size = on_gpu ? wanted : std::min(wanted, enough);
  // On a GPU the head's time varies with the load of the other slices, and a round has only one head.
  const int rounds = on_gpu ? 10 : 2;
  const ProfileRequest request{.sizes = {size}, .rounds = rounds, .recomputation = false, .link = false};
  const planner::Profile measured = profile(setup, profiled_among(setup.devices), request);
  planner::CostTable costs = planner::costs_of(measured, measured.layers);
  planner::CostColumn& column = costs.columns.front();
  const double times = static_cast<double>(wanted) / size;
  column.microbatch = wanted;
  for (planner::LayerCost& layer : column.layers) {
    layer.forward *= times;
    layer.backward *= times;
  }
  return costs;
}

// Seconds per update in each layer, alone on its device.
std::vector<double> seconds_of(const planner::CostTable& costs,
                               const std::vector<planner::LayerShape>& layers, int m) {
  std::vector<double> seconds;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const planner::LayerCost& cost = costs.columns.front().layers[i];
    seconds.push_back(m * (cost.forward + cost.backward) + costs.step_per_parameter * layers[i].parameters);
  }
  return seconds;
}

// The schedule to plan for: stash, which no plan has, is timed like 2bw if that has enough microbatches.
schedule::Kind planned_as(schedule::Spec spec) {
  if (spec.shape.schedule != schedule::Kind::Stash) return spec.shape.schedule;
  spec.shape.schedule = schedule::Kind::TwoBW;
  return spec.shape.microbatches >= schedule::smallest_microbatches(spec) ? spec.shape.schedule
                                                                          : schedule::Kind::Flush;
}

}  // namespace

std::vector<int> fastest_split(const schedule::Spec& spec, const std::vector<planner::LayerShape>& layers,
                               const planner::CostTable& costs) {
  constexpr double kEnough = 1e18;  // bytes
  const int b = costs.columns.front().microbatch;
  const planner::Problem problem{
      .cluster = {.kinds = {{.name = "device", .memory = kEnough}},
                  .nodes = {{.islands = {{.kind = 0, .count = spec.shape.workers()}},
                             .link = planner::kNoLink}},
                  .network = planner::kNoLink},
      .layers = layers,
      .costs = {costs},
      .batch = b * spec.shape.microbatches * spec.shape.replicas,
      .fixed = {.schedule = planned_as(spec),
                .stages = spec.shape.stages,
                .replicas = spec.shape.replicas,
                .microbatch = b,
                .microbatches = spec.shape.microbatches,
                .extra = spec.shape.extra,
                .recompute = false,
                .double_buffer_gradients = spec.shape.double_buffer_gradients,
                .defer_tied_update = spec.shape.defer_tied_update,
                .predict = spec.shape.predict,
                .step_slack = spec.shape.step_slack,
                .shard_state = spec.shape.shard_state}};
  const planner::SearchResult result = planner::search(problem, {.simulate = 0});
  TWOBW_ASSERT(result.best, "no split of {} layers over {} stages", layers.size(), spec.shape.stages);
  return result.best->plan.shape.split;
}

void choose_split(runtime::Setup& setup) {
  std::vector<int>& split = setup.spec.shape.split;
  if (!split.empty()) return;
  if (setup.spec.shape.stages == 1) {
    split = {setup.model.size()};
    return;
  }
  const planner::CostTable costs = measure_costs(setup);
  const std::vector<planner::LayerShape> layers = planner::shapes_of(setup.model.layers);
  setup.layer_seconds = seconds_of(costs, layers, setup.spec.shape.microbatches);
  split = fastest_split(setup.spec, layers, costs);
}

}  // namespace twobw::measure
