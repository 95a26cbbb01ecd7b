#include "planning/planner/costs/plan.h"

namespace twobw::planner {

PipelineShape shape_of(const Plan& plan) {
  PipelineShape shape = plan.shape;
  shape.stages = static_cast<int>(plan.stages.size());
  shape.split.clear();
  shape.recompute.clear();
  for (int r = 0; r < shape.stages; ++r) {
    shape.split.push_back(plan.stages[r].last_layer - plan.stages[r].first_layer);
    if (plan.stages[r].recompute) shape.recompute.push_back(r);
  }
  return shape;
}

}  // namespace twobw::planner
