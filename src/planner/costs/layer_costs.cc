#include "planner/costs/layer_costs.h"

#include <map>

namespace twobw::planner {

std::vector<LayerShape> shapes_of(const architecture::Model& model) {
  std::vector<LayerShape> shapes;
  std::map<std::string, std::size_t> holder;  // of each parameter, by name
  for (const architecture::Layer& layer : model) {
    shapes.push_back({.kind = layer.kind, .parameters = architecture::parameter_count(layer)});
    for (const architecture::Parameter& parameter : layer.parameters) {
      holder[parameter.name] = shapes.size() - 1;
      if (parameter.tied_to.empty()) continue;
      const auto count = static_cast<double>(parameter.count());
      shapes.back().tied += count;
      shapes[holder.at(parameter.tied_to)].tied += count;
    }
  }
  return shapes;
}

}  // namespace twobw::planner
