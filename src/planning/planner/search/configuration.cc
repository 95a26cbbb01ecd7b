#include "planning/planner/search/configuration.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "planning/architecture/families.h"
#include "planning/planner/costs/state_bytes.h"
#include "planning/planner/search/search.h"

namespace twobw::planner {

Problem problem_of(const Config& config, Cluster cluster, std::vector<CostTable> costs) {
  const PipelineConfig& pipeline = config.pipeline;
  const std::string& precision = config.train.precision;
  if (pipeline.memory_limit > 0) {
    for (DeviceKind& kind : cluster.kinds)
      kind.memory = std::min(kind.memory, pipeline.memory_limit * (1 << 30));
  }
  Problem problem = {.cluster = std::move(cluster),
                     .layers = shapes_of(architecture::model_of(config.model)),
                     .costs = std::move(costs),
                     .state = state_bytes(config.optimizer, precision, pipeline.predict),
                     .synchronous_state = state_bytes(config.optimizer, precision, /*predicts=*/false),
                     .batch = pipeline.batch(),
                     .context = config.model.context,
                     .fixed = {.predict = pipeline.predict, .shard_state = pipeline.shard_state}};
  problem.state.fixed_places = problem.synchronous_state->fixed_places =
      std::ranges::any_of(problem.costs, &CostTable::fixed_places);
  return problem;
}

Plan plan_as_configured(const Config& config, Problem problem) {
  const PipelineConfig& pipeline = config.pipeline;
  problem.fixed = {.schedule = pipeline.schedule,
                   .stages = pipeline.stages,
                   .replicas = pipeline.replicas,
                   .microbatch = pipeline.microbatch,
                   .microbatches = pipeline.microbatches,
                   .extra = pipeline.extra,
                   .double_buffer_gradients = pipeline.double_buffer_gradients,
                   .defer_tied_update = pipeline.defer_tied_update,
                   .predict = pipeline.predict,
                   .step_slack = pipeline.step_slack,
                   .shard_state = pipeline.shard_state,
                   .split = pipeline.split,
                   .recomputing = pipeline.recompute};
  const SearchResult result = search(problem, {.suggestions = false});
  return result.best ? result.best->plan : result.infeasibility->closest.plan;
}

Config with_plan(Config config, const Plan& plan, const std::vector<std::string>& devices) {
  config.plan = "none";  // it repeats the run, not the search
  static_cast<PipelineShape&>(config.pipeline) = shape_of(plan);
  config.devices.clear();
  if (devices.empty()) return config;
  // One entry a worker, whole pipelines one after another.
  for (int replica = 0; replica < plan.shape.replicas; ++replica) {
    for (const StagePlan& stage : plan.stages) {
      config.devices.push_back(devices.at(static_cast<std::size_t>(stage.devices.at(replica))));
    }
  }
  return config;
}

}  // namespace twobw::planner
