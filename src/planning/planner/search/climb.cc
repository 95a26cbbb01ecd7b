#include "planning/planner/search/climb.h"

#include <algorithm>
#include <utility>

#include "planning/planner/costs/simulation.h"
#include "planning/planner/search/neighbours.h"

namespace twobw::planner {
namespace {

using schedule::Kind;

// Recomputes only where memory demands it, as the search does.
Estimate fitted(const Problem& problem, Plan plan) {
  for (int r = 0; r < std::ssize(plan.stages); ++r)
    plan.stages[r].recompute = problem.fixed.recomputes(r).value_or(false);
  Estimate estimate = evaluate(problem, std::move(plan));
  if (estimate.fits()) return estimate;
  for (int r = 0; r < std::ssize(estimate.plan.stages); ++r) {
    StagePlan& stage = estimate.plan.stages[r];
    const bool lacks = excess(stage.memory.total(), stage.capacity * (1 - problem.margin)) > 0;
    stage.recompute = problem.fixed.recomputes(r).value_or(lacks);
  }
  return evaluate(problem, std::move(estimate.plan));
}

// Tokens a second at most, whatever transfers take.
double at_most(const Plan& plan) {
  const double m = plan.shape.microbatches;
  const bool drains = plan.shape.schedule != Kind::TwoBW;
  double before = 0, forward = 0, backward = 0,
         least = 0;  // before: of one microbatch, stages before this one
  for (const StagePlan& stage : plan.stages) {
    const double compute = stage.forward + stage.backward;
    least = std::max(least, (drains ? before : 0) + m * compute + stage.step);
    before += compute;
    forward = std::max(forward, stage.forward);
    backward = std::max(backward, stage.backward);
  }
  if (plan.shape.schedule == Kind::GPipe) least = std::max(least, before + (m - 1) * (forward + backward));
  if (plan.shape.schedule == Kind::Sequential) least = std::max(least, m * before);
  return plan.tokens_per_s * plan.update_seconds / least;
}

// Whether it has found a better one.
bool step(const Problem& problem, Estimate& estimate, double& work) {
  constexpr double kWorthIt = 1e-3;
  const double enough = estimate.plan.simulated_tokens_per_s * (1 + kWorthIt);
  for (Plan& plan : neighbours(problem, estimate.plan)) {
    Estimate next = fitted(problem, std::move(plan));
    if (!next.fits() || at_most(next.plan) < enough) continue;
    work -= work_of(next.plan);
    if (work < 0) return false;
    next.plan.simulated_tokens_per_s = simulated_tokens_per_s(problem, next.plan);
    if (next.plan.simulated_tokens_per_s < enough) continue;
    estimate = std::move(next);
    return true;
  }
  return false;
}

}  // namespace

double work_of(const Plan& plan) {
  return static_cast<double>(plan.stages.size()) * plan.shape.microbatches;
}

void climb(const Problem& problem, Estimate& estimate, double& work) {
  constexpr double kWorthwhile = 8;  // neighbours, at least
  while (work > kWorthwhile * work_of(estimate.plan) && step(problem, estimate, work)) {
  }
}

}  // namespace twobw::planner
