#include "planning/planner/costs/layer_sums.h"

#include <algorithm>

#include "core/base/error.h"

namespace twobw::planner {

LayerSums::LayerSums(const std::vector<LayerShape>& shapes, const CostColumn& column) {
  TWOBW_ASSERT(shapes.size() == column.layers.size(), "{} layers, costs of {}", shapes.size(),
               column.layers.size());
  before_.emplace_back();
  compute_.push_back(0);
  highest_.emplace_back();
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const LayerCost& cost = column.layers[i];
    const LayerShape& shape = shapes[i];
    Sums sums = before_.back();
    sums.forward += cost.forward;
    sums.backward += cost.backward;
    sums.saved_bytes += cost.saved_bytes;
    sums.parameters += shape.parameters;
    sums.tied += shape.tied;
    sums.ends += shape.tied > 0 ? 1 : 0;
    sums.tokens += column.bytes_of(shape.takes);
    before_.push_back(sums);
    compute_.push_back(sums.forward + sums.backward);
    output_.push_back(cost.output);
    kept_.push_back(cost.kept);
    highest_[0].push_back(sums.saved_bytes - cost.kept + cost.working);
    slowest_.forward = std::max(slowest_.forward, cost.forward);
    slowest_.backward = std::max(slowest_.backward, cost.backward);
    largest_tie_ = std::max(largest_tie_, shape.tied);
  }
  for (std::size_t span = 2; span <= shapes.size(); span *= 2) {
    const std::vector<double>& half = highest_.back();
    std::vector<double> whole;
    for (std::size_t i = 0; i + span <= shapes.size(); ++i) {
      whole.push_back(std::max(half[i], half[i + span / 2]));
    }
    highest_.push_back(std::move(whole));
  }
}

}  // namespace twobw::planner
