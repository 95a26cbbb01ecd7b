#include "planning/planner/costs/shared_links.h"

namespace twobw::planner {

// Replicas that predict sum their gradients twice.
double LinkUse::besides(const Setting& setting) const {
  return (setting.shape.predicts() ? 2 : 1) * sums + ties;
}

double LinkUse::update(const Setting& setting) const {
  const double m = setting.shape.microbatches;
  return std::max(m * crossing + besides(setting), m * inside + inside_ties);
}

// Between the sums of two stages lie the microbatches between them less a backward; if all stages wait for
// the end of a batch, one backward and its gradient in transit.
double join(const Setting& setting, const StageTiming& stage, int ahead, LinkUse& node) {
  if (stage.shares) (stage.leaves ? node.crossing : node.inside) += stage.busy;
  if (stage.tie_shares) (stage.tie_leaves ? node.ties : node.inside_ties) += stage.tie_busy;
  const bool waits_for_all = setting.shape.schedule != schedule::Kind::TwoBW;
  // The last stage ends its batch first, and its part of the tie passes beside the sums of the others.
  const bool of_last = waits_for_all && stage.tie_shares && stage.tie_leaves && stage.tie <= 0;
  const double tie = of_last ? stage.tie_busy : 0;
  if (stage.sum <= 0) return 0;
  const double between =
      waits_for_all ? stage.backward + stage.send : ahead * stage.compute() - stage.backward;
  const double waits = std::max(0.0, node.queue - std::max(0.0, between));
  node.queue = waits + stage.sum + tie;
  node.sums += stage.sum;
  return waits;
}

// The last stage ends a batch first and sends its part to the first stage, which sends its own when it ends
// the batch.
//
// Without replicas and defer_tied_update the first stage steps as soon as it has the sum, and begins no
// forward before. So an update takes, from the end of a batch on the last stage: the tie, with the gradients
// in flight on the same link; the step; the way forth of the microbatch that is due; and the microbatches
// after it. With replicas or defer_tied_update the first stage steps as late as the others.
//
// In the other direction the last stage needs the first one's part before it runs the first microbatch on the
// new weights; if a whole batch is predicted, two batches later. Every update has its own tie, one after the
// other.
double hold_of_tie(const Setting& setting, const TieSetting& at, const StageTiming& first, const Way& way,
                   const LinkUse& node) {
  if (first.tie <= 0) return 0;
  const double m = setting.shape.microbatches;
  const double passing = at.nodes > 1 ? node.crossing : node.inside;
  const double shared = first.tie + (first.tie_shares ? stretch(passing, at.pace) * first.tie_busy : 0);
  const bool defer_tied_update = setting.shape.replicas == 1 && setting.shape.defer_tied_update;
  const double way_back = way.back + (defer_tied_update ? way.waits / 2 : way.waits);
  const double back = at.queue + first.reduce + shared + passing + first.step + way_back;
  const double to_last = at.needed_at < m ? back + (m - at.needed_at) * at.pace : (back + m * at.pace) / 2;
  const bool steps_late = setting.shape.replicas > 1 || defer_tied_update;
  if (steps_late && at.needed_at >= at.in_flight) return std::max(to_last, first.tie_busy);
  const double beside = std::min(first.tie + at.in_flight * passing, shared + passing);
  const double forth = beside + first.step + way.forth + first.backward;
  const double to_first =
      at.in_flight <= m ? forth + (m - at.in_flight) * at.pace : (forth + (m - 1) * at.pace) / 2;
  return std::max({to_first, to_last, first.tie_busy});
}

// It gets the rest of the link, and at least half of it.
double stretch(double busy, double pace) {
  if (busy <= 0) return 0;
  return pace > 2 * busy ? busy / (pace - busy) : 1;
}

}  // namespace twobw::planner
