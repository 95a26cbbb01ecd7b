// Memory of a stage, by term (core/base/memory_terms.h).
#pragma once

#include "core/base/memory_terms.h"
#include "core/schedule/spec.h"
#include "planning/planner/costs/layer_costs.h"

namespace twobw::planner {

// The sums over a stage's layers that its memory and time depend on.
struct StageLoad {
  double parameters = 0;
  double gradient_parameters = 0;  // more than `parameters` where both ends of a tie share the stage
  double forward = 0, backward = 0;
  double saved_bytes = 0, working = 0, input = 0, output = 0, tokens = 0;
  double tied = 0;  // elements whose gradient is summed with another stage's
};

// The two candidates for a stage's peak: while it computes, or at the end of a batch, when it holds the other
// end's gradient of tied weights, and on the first stage a copy of its own.
enum class Moment { Computing, SummingTies };

// Linear in the load. Only the stages that follow this one matter, and whether it is the first.
Footprint footprint_at(Moment moment, const schedule::Spec& spec, int stage, const StageLoad& load,
                       const StateBytes& state, bool recompute);

// At the moment when it is largest.
Footprint footprint(const schedule::Spec& spec, int stage, const StageLoad& load, const StateBytes& state,
                    bool recompute);

}  // namespace twobw::planner
