// The one definition of a plan's forecast: its time (time_model.h) and its memory (memory_model.h). The
// search only looks for the plan that this likes best.
#pragma once

#include "planning/planner/costs/layer_sums.h"
#include "planning/planner/costs/plan.h"

namespace twobw::planner {

// Bytes beyond the capacity; as good as none is none.
inline double excess(double bytes, double capacity) {
  const double over = bytes - capacity;
  return over > 0 && over < 1e-9 * capacity ? 0 : over;
}

struct Estimate {
  Plan plan;             // with its forecast
  int tightest = 0;      // the stage that exceeds its memory most, or has least to spare
  double over = 0;       // by so many bytes beyond what the margin leaves; at most 0: the plan fits
  double footprint = 0;  // bytes of all devices together
  // By the formula that says least of shared links (Sharing::Least).
  double hoped_seconds = 0;  // of an update
  double hoped_tokens_per_s() const { return plan.tokens_per_s * plan.update_seconds / hoped_seconds; }

  bool fits() const { return over <= 0; }
};

// Any placement will do, also such as the search never makes. The plan must be whole: every layer in one
// stage, `replicas` devices a stage, all of its kind.
Estimate evaluate(const Problem& problem, Plan plan);
// The same where the sums are known.
Estimate evaluate(const Problem& problem, Plan plan, const LayerSumsByKind& sums);

}  // namespace twobw::planner
