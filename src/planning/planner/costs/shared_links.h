// What stages do to each other over links that they share: the end of the network that a node's devices have
// in common, where activations, gradients, sums over replicas and ties all pass, and links inside a node.
//
// In seconds, as the first replica sees them; the others are like it. All of it is known stage by stage from
// the last to the first, which is how the search goes.
#pragma once

#include <algorithm>

#include "planning/planner/costs/stage_timing.h"

namespace twobw::planner {

// For how long the stages of one node, those so far, have its links busy. As much comes as leaves, so one
// direction stands for both.
struct LinkUse {
  double crossing = 0;     // the network, a microbatch
  double sums = 0;         // the network, an update: one sum over the replicas of every stage
  double ties = 0;         // the network, an update
  double inside = 0;       // links inside, a microbatch
  double inside_ties = 0;  // links inside, an update
  double queue = 0;        // the network: sums not through when the first of these stages has begun its own

  // Of the busier link: a microbatch, and with what passes once an update.
  double microbatch() const { return std::max(crossing, inside); }
  double update(const Setting& setting) const;
  // The network, an update: all but what passes with microbatches.
  double besides(const Setting& setting) const;
};

// The node of the next stage is another than this one's.
inline void complete(const StageTiming& stage, LinkUse& next) {
  if (stage.shares) next.crossing += stage.busy;
}
// Puts the stage in front of those that the node has; the next stage has `ahead` microbatches fewer in
// flight. Returns the seconds of other sums, and of a tie, that the stage's own sum waits for.
double join(const Setting& setting, const StageTiming& stage, int ahead, LinkUse& node);

// The way of one microbatch through all stages and back, computation and transfers between nodes. Where a
// stage has two or more in flight beyond the next one it never waits for a gradient: a gradient waits for a
// forward at most, of which `waits` is the sum.
struct Way {
  double forth = 0, back = 0, waits = 0;

  void add(const StageTiming& stage, int ahead) {
    const double send = stage.leaves ? stage.send : 0;
    forth += stage.forward + send;
    back += stage.backward + send;
    if (ahead > 1) waits += stage.forward;
  }
};

// Of the first stage: microbatches in flight, and sums that its own waits for; its node, and how many nodes
// there are. `needed_at`: the first microbatch of a batch that runs on the true weights.
struct TieSetting {
  int in_flight = 1;
  int needed_at = 1;
  double queue = 0;
  int nodes = 1;
  double pace = 0;  // P
};
// Seconds of an update at least, by the exchange of a tie between the first stage and the last, under 2BW
// with two gradient buffers.
double hold_of_tie(const Setting& setting, const TieSetting& at, const StageTiming& first, const Way& way,
                   const LinkUse& node);

// By what part something takes longer on a link that microbatches have busy for so many seconds of P.
double stretch(double busy, double pace);

}  // namespace twobw::planner
