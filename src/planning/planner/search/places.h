// Placements of a pipeline's stages on the cluster: the ones that the search tries.
//
// The w replicas of a stage use k identical nodes (a group), w/k devices of one kind on each. k is the
// smallest divisor of w that is at least `spread`, if each node has w/k devices of a kind and there are k
// nodes. With `spread` 1 the replicas of a stage share the fast links inside a node; with `spread` w each
// replica has a node, and the stages of a pipeline share it.
//
// The pipeline visits each group once, and inside a group each island (the devices of one kind in a node)
// once. An island holds several stages. It is filled before the next identical island, but may be left half
// empty for a different one. Islands and groups may be left out, and the pipeline may end anywhere.
//
// Built from the last stage to the first. Identical groups are counted, not listed.
#pragma once

#include <string>
#include <vector>

#include "planning/planner/costs/plan.h"
#include "planning/planner/costs/transfers.h"

namespace twobw::planner {

// Whether two nodes are identical.
bool alike(const Node& a, const Node& b);

// Identical nodes, in groups of k.
struct GroupKind {
  std::vector<int> nodes;  // indices in the cluster, all identical
  int spread = 1;          // k
  int count = 0;           // number of groups
};

// A step to the next place, towards the first stage.
struct Advance {
  int place = 0;
  bool same_group = false;  // as the stage after it
};

// One stage's place, given those of all stages after it.
struct Place {
  int stages = 0;  // this one and those after it
  int site = 0;    // index into Places::sites
  int group_kind = 0, group = 0;
  int island = 0, position = 0;  // stages after it on the same island
  int groups = 0;                // opened so far
  int reach = 0;                 // most stages that can still come before it
  std::vector<Advance> next;
};

class Places {
 public:
  // Places of pipelines of at most `stages` stages. Above about `most` places it builds fewer orders of
  // nodes, see restriction(). `speeds` is by kind of device.
  Places(const Cluster& cluster, const std::vector<double>& speeds, int replicas, int spread, int stages,
         int most);

  // The first is the root, without a stage. Sorted by the number of stages.
  const std::vector<Place>& all() const { return places_; }
  const std::vector<Site>& sites() const { return sites_; }

  // Describes the orders left out to limit the number of places; empty: none.
  const std::string& restriction() const { return restriction_; }

  // Fills in place kind, nodes and devices.
  void site(int place, StagePlan& stage) const;

 private:
  // Orders to leave out; each limit excludes more than the one before.
  enum class Limit { None, FilledIslands, FilledKinds, BySpeed };
  struct Where;

  bool build(Limit limit, int stages, int most);
  std::vector<Where> after(const Where& where, Limit limit) const;
  void open_groups(const Where& where, Limit limit, std::vector<Where>& found) const;
  bool may_leave(const Where& where, Limit limit, int kind, int island) const;
  bool may_open(const Where& where, Limit limit, int kind) const;
  const Node& node(int kind) const { return cluster_.nodes[kinds_[kind].nodes.front()]; }
  const Site& site_of(int kind, int island) const { return sites_[first_seat_[kind] + island]; }
  int stages_on(int kind, int island) const;

  const Cluster& cluster_;
  int replicas_;
  std::vector<GroupKind> kinds_;  // the fastest first
  std::vector<Site> sites_;
  std::vector<int> first_seat_;  // by group kind
  std::vector<Place> places_;
  std::string restriction_;
};

// Ways to make groups that differ: the smallest `spread` of each.
std::vector<int> distinct_spreads(const Cluster& cluster, int replicas);

}  // namespace twobw::planner
