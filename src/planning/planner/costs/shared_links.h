// Contention on shared links: a node's end of the network, which activations, gradients, sums over replicas
// and ties share, and links inside a node. In seconds, for the first replica; the others are the same.
// Computed stage by stage from the last to the first, in the order of the search.
#pragma once

#include <algorithm>

#include "planning/planner/costs/stage_timing.h"

namespace twobw::planner {

// Seconds that the stages of one node, so far, use its links. As much arrives as leaves, so one direction is
// counted.
struct LinkUse {
  double crossing = 0;     // the network, a microbatch
  double sums = 0;         // the network, an update: one sum over the replicas of every stage
  double ties = 0;         // the network, an update
  double inside = 0;       // links inside, a microbatch
  double inside_ties = 0;  // links inside, an update
  double queue = 0;        // the network: sums in progress when the first of these stages begins its own

  // Seconds of the busier link: per microbatch, and per update with sums and ties.
  double microbatch() const { return std::max(crossing, inside); }
  double update(const Setting& setting) const;
  // Seconds of the network for sums and ties, per update.
  double besides(const Setting& setting) const;
};

// Adds a stage whose next stage is on another node.
inline void complete(const StageTiming& stage, LinkUse& next) {
  if (stage.shares) next.crossing += stage.busy;
}
// Adds a stage in front of the node's stages; the next stage has `ahead` fewer microbatches in flight.
// Returns the seconds that the stage's sum waits for other sums and a tie.
double join(const Setting& setting, const StageTiming& stage, int ahead, LinkUse& node);

// Computation and transfers between nodes for one microbatch through all stages and back. A stage with two or
// more in flight beyond the next one never waits for a gradient: a gradient waits for at most one forward;
// `waits` is their sum.
struct Way {
  double forth = 0, back = 0, waits = 0;

  void add(const StageTiming& stage, int ahead) {
    const double send = stage.leaves ? stage.send : 0;
    forth += stage.forward + send;
    back += stage.backward + send;
    if (ahead > 1) waits += stage.forward;
  }
};

// The first stage: its microbatches in flight, and the sums that its own waits for; the number of nodes.
// `needed_at`: the first microbatch of a batch that runs on the true weights.
struct TieSetting {
  int in_flight = 1;
  int needed_at = 1;
  double queue = 0;
  int nodes = 1;
  double pace = 0;  // P
};
// Lower bound of an update from the exchange of a tie between the first stage and the last, under 2BW with
// two gradient buffers.
double hold_of_tie(const Setting& setting, const TieSetting& at, const StageTiming& first, const Way& way,
                   const LinkUse& node);

// Relative slowdown of a transfer on a link that microbatches use for `busy` seconds of P.
double stretch(double busy, double pace);

}  // namespace twobw::planner
