// Where the stages of a pipeline may sit: all ways to line them up on the cluster that the search tries.
//
// The w replicas of a stage sit on k like nodes, w/k on each, on devices of one kind. k is the smallest
// divisor of w that is at least `spread`, leaves a node no more than it has of one kind, and of which there
// are nodes enough; k nodes together are a group. So with `spread` 1 replicas share the fast links inside a
// node, with `spread` w each replica has a node of its own and its stages share them.
//
// The pipeline goes from group to group, never back, and inside a group from island to island. An island
// (the devices of one kind in a node) holds several stages; it is filled before the next island like it
// is opened, but may be left half empty for an unlike one. Islands and groups may be left out, and the
// pipeline may end anywhere.
//
// Built from the last stage to the first. Like groups are counted, not listed: of those that are left
// it never matters which comes next.
#pragma once

#include <string>
#include <vector>

#include "planning/planner/costs/plan.h"
#include "planning/planner/costs/transfers.h"

namespace twobw::planner {

// Whether it does not matter which of two nodes is which.
bool alike(const Node& a, const Node& b);

// Like nodes, in groups of k.
struct GroupKind {
  std::vector<int> nodes;  // of the cluster, all alike
  int spread = 1;          // k
  int count = 0;           // groups that can be made of them
};

// The next stage towards the first.
struct Advance {
  int place = 0;
  bool same_group = false;  // as the stage after it
};

// One stage's place, told by those of all stages after it.
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
  // Of pipelines of at most `stages`. There are no more than about `most` places: else fewer ways are
  // built, see restriction(), those first that put fast nodes together. `speeds` is by kind of device.
  Places(const Cluster& cluster, const std::vector<double>& speeds, int replicas, int spread, int stages,
         int most);

  // The first is no stage's: it is before any has been placed. Those of fewer stages come first.
  const std::vector<Place>& all() const { return places_; }
  const std::vector<Site>& sites() const { return sites_; }

  // What was left out to keep the number of places down; empty: nothing.
  const std::string& restriction() const { return restriction_; }

  // Fills in place kind, nodes and devices.
  void site(int place, StagePlan& stage) const;

 private:
  // What to leave out; each leaves out more than the one before.
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
