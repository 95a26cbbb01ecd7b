// The one definition of a plan's forecast: its time (time_model.h) and its memory (memory_model.h). The
// search only looks for the plan that this likes best.
#pragma once

#include "planning/planner/costs/layer_sums.h"
#include "planning/planner/costs/plan.h"

namespace twobw::planner {

// Bytes beyond the capacity, rounded to 0 within the rounding error.
inline double excess(double bytes, double capacity) {
  const double over = bytes - capacity;
  return over > 0 && over < 1e-9 * capacity ? 0 : over;
}

struct Estimate {
  Plan plan;             // with its forecast
  int tightest = 0;      // the stage that exceeds its memory most, or has least to spare
  double over = 0;       // its bytes beyond the capacity less the margin; at most 0: the plan fits
  double footprint = 0;  // bytes of all devices together
  // By the formula that says least of shared links (Sharing::Least).
  double hoped_seconds = 0;  // of an update
  double hoped_tokens_per_s() const { return plan.tokens_per_s * plan.update_seconds / hoped_seconds; }

  bool fits() const { return over <= 0; }
};

// Accepts any placement, including ones outside the search space. The plan must be complete: every layer in
// one stage, and `replicas` devices of the stage's kind.
Estimate evaluate(const Problem& problem, Plan plan);
// Overload for a caller that has the sums.
Estimate evaluate(const Problem& problem, Plan plan, const LayerSumsByKind& sums);

}  // namespace twobw::planner
