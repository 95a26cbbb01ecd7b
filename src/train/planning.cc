#include "train/planning.h"

#include <map>
#include <numeric>

#include "planner/precision.h"
#include "schedule/spec.h"

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

}  // namespace twobw::train
