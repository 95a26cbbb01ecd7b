#include "planner/configuration.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "planner/modelled.h"
#include "planner/precision.h"
#include "planner/search.h"

namespace twobw::planner {

Problem problem_of(const Config& config, Cluster cluster, std::vector<CostTable> costs) {
  const PipelineConfig& pipeline = config.pipeline;
  const std::string& precision = config.train.precision;
  if (pipeline.memory_limit > 0) {
    for (DeviceKind& kind : cluster.kinds)
      kind.memory = std::min(kind.memory, pipeline.memory_limit * (1 << 30));
  }
  Problem problem = {.cluster = std::move(cluster),
                     .layers = shapes_of(describe_model(config.model, bytes_per_element(precision))),
                     .costs = std::move(costs),
                     // The corrections for a delay are off where there is none.
                     .state = state_bytes(config.optimizer, precision, /*delayed=*/true),
                     .synchronous_state = state_bytes(config.optimizer, precision, /*delayed=*/false),
                     .batch = pipeline.microbatch * pipeline.microbatches * pipeline.replicas,
                     .context = config.model.context};
  problem.state.fixed_places = problem.synchronous_state->fixed_places =
      std::ranges::any_of(problem.costs, &CostTable::fixed_places);
  return problem;
}

Plan plan_as_configured(const Config& config, const Problem& problem) {
  Problem configured = problem;
  configured.second_gradient = config.pipeline.second_gradient;
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
  return evaluate(problem, std::move(plan)).plan;
}

Config with_plan(Config config, const Plan& plan, const std::vector<std::string>& devices) {
  config.plan = "none";  // it repeats the run, not the search
  PipelineConfig& pipeline = config.pipeline;
  pipeline.schedule = schedule::name(plan.schedule);
  pipeline.stages = static_cast<int>(plan.stages.size());
  pipeline.replicas = plan.replicas;
  pipeline.microbatch = plan.microbatch;
  pipeline.microbatches = plan.microbatches;
  pipeline.extra = plan.extra;
  pipeline.second_gradient = plan.second_gradient;
  pipeline.split.clear();
  pipeline.recompute.clear();
  config.devices.clear();
  for (int r = 0; r < pipeline.stages; ++r) {
    const StagePlan& stage = plan.stages[r];
    pipeline.split.push_back(stage.last_layer - stage.first_layer);
    if (stage.recompute) pipeline.recompute.push_back(r);
  }
  if (devices.empty()) return config;
  // One entry a worker, whole pipelines one after another.
  for (int replica = 0; replica < plan.replicas; ++replica) {
    for (const StagePlan& stage : plan.stages) {
      config.devices.push_back(devices.at(static_cast<std::size_t>(stage.devices.at(replica))));
    }
  }
  return config;
}

}  // namespace twobw::planner
