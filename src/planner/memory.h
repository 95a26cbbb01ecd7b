// What a stage needs, by name. The run counts the same names (device/memory.h), so that every term of a
// forecast can be held against a measurement.
#pragma once

#include <array>
#include <string_view>

#include "planner/costs.h"
#include "schedule/spec.h"

namespace twobw::planner {

enum class Term {
  Weights,      // all versions kept
  Master,       // fp32 weights beside those computed with
  Gradients,    // one or two buffers
  Optimizer,    // moments and extrapolation history
  Activations,  // stashed for the backwards of the microbatches in flight
  Inputs,       // what came from the stage before, and the tokens, for the microbatches in flight
  Working,      // while a layer computes, and what one recomputed microbatch stashes
  Transfer,     // on its way to a neighbour
};
inline constexpr int kTerms = 8;
std::string_view name(Term term);

struct Footprint {
  std::array<double, kTerms> bytes{};
  double& operator[](Term term) { return bytes[static_cast<std::size_t>(term)]; }
  double operator[](Term term) const { return bytes[static_cast<std::size_t>(term)]; }
  double total() const;
};

// The sums over a stage's layers that its memory and time depend on.
struct StageLoad {
  double parameters = 0;
  double gradient_parameters = 0;  // more than `parameters` where both ends of a tie share the stage
  double forward = 0, backward = 0;
  double stash = 0, working = 0, input = 0, output = 0, tokens = 0;
  double tied = 0;  // elements whose gradient is summed with another stage's
};

// A stage needs most while it computes, or, with little to compute and much that is tied, at the end of a
// batch, when the other end's gradient of the tied weights is there, and on the first stage a copy of its
// own.
enum class Moment { Computing, SummingTies };

// Linear in the load. Only the stages that follow this one matter, and whether it is the first.
Footprint footprint_at(Moment moment, const schedule::Spec& spec, int stage, const StageLoad& load,
                       const StateBytes& state, bool recompute);

// At the moment when it is largest.
Footprint footprint(const schedule::Spec& spec, int stage, const StageLoad& load, const StateBytes& state,
                    bool recompute);

}  // namespace twobw::planner
