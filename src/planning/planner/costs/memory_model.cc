#include "planning/planner/costs/memory_model.h"

namespace twobw::planner {

Footprint footprint_at(Moment moment, const schedule::Spec& spec, int stage, const StageLoad& load,
                       const StateBytes& state, bool recompute) {
  const bool flushes = spec.shape.schedule != schedule::Kind::TwoBW;
  const double tie = state.gradients * load.tied;
  // If the first stage steps late and a whole batch is predicted, the last stage may end a batch before the
  // first has consumed the copy's part of the previous batch.
  const bool two_on_their_way = stage > 0 && spec.shape.replicas == 1 && schedule::steps_late(spec, 0) &&
                                !schedule::switches_to_true_weights(spec);
  Footprint result;
  result[Term::Weights] = schedule::versions_kept(spec, stage) * state.weights * load.parameters;
  result[Term::Master] = state.master * load.parameters / spec.shape.owners();
  // Replicas predict from a sum of their parts, which has a buffer of its own.
  const bool sums_partly = spec.shape.replicas > 1 && spec.shape.predicts();
  result[Term::Gradients] = (schedule::gradient_buffers(spec, stage) + (sums_partly ? 1 : 0)) *
                            state.gradients * load.gradient_parameters;
  result[Term::Optimizer] = state.optimizer * load.parameters / spec.shape.owners();
  const auto hold = [&](double microbatches) {
    result[Term::Activations] = recompute ? 0 : microbatches * load.saved_bytes;
    result[Term::Inputs] = microbatches * (load.input + load.tokens);
  };
  const double in_flight = schedule::in_flight_bound(spec, stage);
  if (state.fixed_places) {
    hold(in_flight);
    result[Term::Working] = load.working + (recompute ? load.saved_bytes : 0);
    const double before = stage > 0 ? schedule::in_flight_bound(spec, stage - 1) : 0;
    result[Term::Transfer] = in_flight * load.output + before * load.input + 2 * tie;
    return result;
  }
  if (moment == Moment::Computing) {
    hold(in_flight);
    result[Term::Working] = load.working + (recompute ? load.saved_bytes : 0);
    // Without a flush, work continues while the copy of a tied gradient is in transit.
    result[Term::Transfer] = load.output + load.input + (flushes ? 0 : two_on_their_way ? 2 * tie : tie);
  } else {
    // A stage that steps right before its next backward has run the forward before that.
    const bool forwarded = schedule::steps_late(spec, stage) && schedule::gradient_buffers(spec, stage) == 1;
    hold(flushes ? 0 : in_flight - (forwarded ? 0 : 1));
    result[Term::Working] = tie;
    // The last stage is done with a batch first, and its copy gone when the first stage's arrives.
    result[Term::Transfer] = stage == 0 ? tie : 0;
  }
  return result;
}

Footprint footprint(const schedule::Spec& spec, int stage, const StageLoad& load, const StateBytes& state,
                    bool recompute) {
  const auto at = [&](Moment moment) { return footprint_at(moment, spec, stage, load, state, recompute); };
  const Footprint computing = at(Moment::Computing), summing = at(Moment::SummingTies);
  return computing.total() >= summing.total() ? computing : summing;
}

}  // namespace twobw::planner
