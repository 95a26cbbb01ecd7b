#include "planner/memory.h"

#include <numeric>

namespace twobw::planner {
std::string_view name(Term term) {
  switch (term) {
    case Term::Weights:
      return "weights";
    case Term::Master:
      return "master";
    case Term::Gradients:
      return "gradients";
    case Term::Optimizer:
      return "optimizer";
    case Term::Activations:
      return "activations";
    case Term::Inputs:
      return "inputs";
    case Term::Working:
      return "working";
    case Term::Transfer:
      return "transfer";
  }
  return "?";
}

double Footprint::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), 0.0);
}

Footprint footprint(const schedule::Spec& spec, int stage, const StageLoad& load, const StateBytes& state,
                    bool recompute) {
  const double in_flight = schedule::in_flight_bound(spec, stage);
  // The copy of a tied gradient on its way to the other end; without a flush, work goes on meanwhile.
  const double tie = spec.kind == schedule::Kind::TwoBW ? state.gradients * load.tied : 0;
  Footprint result;
  result[Term::Weights] = schedule::versions_kept(spec, stage) * state.weights * load.parameters;
  result[Term::Master] = state.master * load.parameters;
  result[Term::Gradients] =
      schedule::gradient_buffers(spec, stage) * state.gradients * load.gradient_parameters;
  result[Term::Optimizer] = state.optimizer * load.parameters;
  result[Term::Activations] = recompute ? 0 : in_flight * load.stash;
  result[Term::Inputs] = in_flight * (load.input + load.tokens);
  result[Term::Working] = load.working + (recompute ? load.stash : 0);
  result[Term::Transfer] = load.output + load.input + tie;
  return result;
}

}  // namespace twobw::planner
