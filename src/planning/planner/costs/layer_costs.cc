#include "planning/planner/costs/layer_costs.h"

#include <map>

namespace twobw::planner {

std::vector<LayerShape> shapes_of(const architecture::Model& model) {
  std::vector<LayerShape> shapes;
  std::map<std::string, std::size_t> holder;  // of each parameter, by name
  for (const architecture::Layer& layer : model) {
    shapes.push_back(
        {.kind = layer.kind, .parameters = architecture::parameter_count(layer), .takes = layer.takes});
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

double CostColumn::bytes_of(architecture::BatchFields fields) const {
  double bytes = 0;
  for (const architecture::Field field : architecture::kFields) {
    if (!fields.has(field)) continue;
    const bool by_token = architecture::count_of(field, 1, 2) == 2;
    bytes += by_token ? tokens : 8.0 * static_cast<double>(architecture::count_of(field, microbatch, 1));
  }
  return bytes;
}

}  // namespace twobw::planner
