// What passes between devices, and how long it takes: from a stage to the next, and between the replicas of
// one. That follows from where the replicas sit, for many transfers at once may share a link.
#pragma once

#include "planning/planner/costs/plan.h"
#include "planning/planner/hardware/cluster.h"

namespace twobw::planner {

// Where the replicas of a stage sit: on so many nodes, so many on each, on devices of one kind.
struct Site {
  int kind = 0;
  int nodes = 1;
  int per_node = 1;
  LinkSpec inside;  // between devices of a node
};

struct Transfer {
  double seconds = 0;  // until it has arrived, where nothing else is on the way
  double busy = 0;     // of the link
};
// One of so many transfers of `bytes` that cross a node's end of the link at once.
Transfer transfer(const LinkSpec& link, int at_once, double bytes);

// Replica by replica from one stage to another, all at once; the slowest counts.
Transfer transfer_between(const Cluster& cluster, const StagePlan& from, const StagePlan& to, double bytes);

Site site_of(const Cluster& cluster, const StagePlan& stage);

// A ring among replicas on one node; else rings inside nodes and one between them. Busy is the node's end of
// the network, where the node's devices share it.
Transfer all_reduce(const LinkSpec& network, const Site& site, double bytes);

}  // namespace twobw::planner
