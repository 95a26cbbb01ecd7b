#include "planner/search/configuration.h"

#include <algorithm>
#include <utility>

#include "architecture/families.h"
#include "base/error.h"
#include "planner/costs/state_bytes.h"
#include "planner/search/search.h"

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

Plan plan_as_configured(const Config& config, const Problem& problem) {
  Problem configured = problem;
  configured.fixed.second_gradient = config.pipeline.second_gradient;
  configured.fixed.late_tie = config.pipeline.late_tie;
  configured.fixed.slack = config.pipeline.slack;
  const SearchResult result = search(configured, {.simulate = 0});
  Plan plan = result.best ? result.best->plan : result.shortfall->closest.plan;
  const PipelineConfig& pipeline = config.pipeline;
  int layer = 0;
  for (int r = 0; r < static_cast<int>(std::ssize(plan.stages)); ++r) {
    StagePlan& stage = plan.stages[r];
    stage.recompute =
        std::find(pipeline.recompute.begin(), pipeline.recompute.end(), r) != pipeline.recompute.end();
    if (pipeline.split.empty()) continue;
    stage.first_layer = layer;
    stage.last_layer = layer += pipeline.split.at(r);
  }
  if (layer > 0 && layer != std::ssize(problem.layers)) {
    fail_input("pipeline.split covers {} layers; it must cover the model's {}", layer, problem.layers.size());
  }
  return evaluate(configured, std::move(plan)).plan;
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
