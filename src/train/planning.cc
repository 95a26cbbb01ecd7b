#include "train/planning.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "device/cpu.h"
#include "planner/precision.h"
#include "planner/search.h"

namespace twobw::train {
namespace {

double elements(const models::ParameterSpec& parameter) {
  return std::accumulate(parameter.shape.begin(), parameter.shape.end(), 1.0, std::multiplies<>());
}

}  // namespace

std::vector<std::string> layer_kinds(const models::LayerList& model) {
  std::vector<std::string> kinds;
  for (const auto& layer : model) kinds.push_back(layer->kind());
  return kinds;
}

planner::StateBytes state_bytes(const Config& config) {
  const bool delayed = schedule::is_delayed(schedule::parse_kind(config.pipeline.schedule));
  return planner::state_bytes(config.optimizer, config.train.precision, delayed);
}

std::vector<planner::LayerShape> layer_shapes(const models::LayerList& model) {
  std::vector<planner::LayerShape> shapes;
  std::map<std::string, std::size_t> holder;  // of each parameter, by name
  for (const auto& layer : model) {
    planner::LayerShape& shape = shapes.emplace_back(planner::LayerShape{.kind = layer->kind()});
    for (const models::ParameterSpec& parameter : layer->parameters()) {
      const double count = elements(parameter);
      shapes.back().parameters += count;
      holder[parameter.name] = shapes.size() - 1;
      if (parameter.tied_to.empty()) continue;
      shape.tied += count;
      shapes[holder.at(parameter.tied_to)].tied += count;
    }
  }
  return shapes;
}

planner::Problem make_problem(const Config& config, const models::LayerList& model, planner::Cluster cluster,
                              std::vector<planner::CostTable> costs) {
  const PipelineConfig& pipeline = config.pipeline;
  return {
      .cluster = std::move(cluster),
      .layers = layer_shapes(model),
      .costs = std::move(costs),
      // The corrections for a delay are off where there is none.
      .state = planner::state_bytes(config.optimizer, config.train.precision, /*delayed=*/true),
      .synchronous_state = planner::state_bytes(config.optimizer, config.train.precision, /*delayed=*/false),
      .batch = pipeline.microbatch * pipeline.microbatches * pipeline.replicas,
      .context = config.model.context};
}

planner::Plan plan_as_configured(const Config& config, const planner::Problem& problem) {
  const planner::SearchResult result = planner::search(problem, {.simulate = 0});
  planner::Plan plan = result.best ? result.best->plan : result.shortfall->closest.plan;
  const PipelineConfig& pipeline = config.pipeline;
  int layer = 0;
  for (int r = 0; r < static_cast<int>(std::ssize(plan.stages)); ++r) {
    planner::StagePlan& stage = plan.stages[r];
    stage.recompute =
        std::find(pipeline.recompute.begin(), pipeline.recompute.end(), r) != pipeline.recompute.end();
    if (pipeline.split.empty()) continue;
    stage.first_layer = layer;
    stage.last_layer = layer += pipeline.split.at(r);
  }
  if (layer > 0 && layer != std::ssize(problem.layers)) {
    fail_input("pipeline.split covers {} layers; it must cover the model's {}", layer, problem.layers.size());
  }
  return planner::evaluate(problem, std::move(plan)).plan;
}

Config with_plan(Config config, const planner::Plan& plan, bool cores) {
  PipelineConfig& pipeline = config.pipeline;
  pipeline.schedule = schedule::name(plan.schedule);
  pipeline.stages = static_cast<int>(plan.stages.size());
  pipeline.replicas = plan.replicas;
  pipeline.microbatch = plan.microbatch;
  pipeline.microbatches = plan.microbatches;
  pipeline.extra = plan.extra;
  pipeline.split.clear();
  pipeline.recompute.clear();
  config.devices.clear();
  for (int r = 0; r < pipeline.stages; ++r) {
    const planner::StagePlan& stage = plan.stages[r];
    pipeline.split.push_back(stage.last_layer - stage.first_layer);
    if (stage.recompute) pipeline.recompute.push_back(r);
  }
  if (!cores) return config;
  // One entry a worker, whole pipelines one after another.
  const std::vector<int> available = device::available_cores();
  for (int replica = 0; replica < plan.replicas; ++replica) {
    for (const planner::StagePlan& stage : plan.stages) {
      config.devices.push_back(
          device::describe({.cores = {available.at(static_cast<std::size_t>(stage.devices.at(replica)))}}));
    }
  }
  return config;
}

}  // namespace twobw::train
