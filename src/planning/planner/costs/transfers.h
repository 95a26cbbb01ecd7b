// Transfers between stages and between the replicas of a stage. Their time depends on the placement of the
// replicas, because simultaneous transfers may share a link.
#pragma once

#include "planning/planner/costs/plan.h"
#include "planning/planner/hardware/cluster.h"

namespace twobw::planner {

// Placement of a stage's replicas: `per_node` on each of `nodes` nodes, on devices of one kind.
struct Site {
  int kind = 0;
  int nodes = 1;
  int per_node = 1;
  LinkSpec inside;  // between devices of a node
};

struct Transfer {
  double seconds = 0;  // until arrival, on an idle link
  double busy = 0;     // seconds that it occupies the link
};
// One of `at_once` simultaneous transfers of `bytes` over a node's end of the link.
Transfer transfer(const LinkSpec& link, int at_once, double bytes);

// Replica by replica from one stage to another, all at once; the slowest counts.
Transfer transfer_between(const Cluster& cluster, const StagePlan& from, const StagePlan& to, double bytes);

Site site_of(const Cluster& cluster, const StagePlan& stage);

// A ring among replicas on one node; else rings inside nodes and one between them. `busy` counts the node's
// end of the network if the node's devices share it.
Transfer all_reduce(const LinkSpec& network, const Site& site, double bytes);

}  // namespace twobw::planner
