// The best split of the layers over the places of a pipeline, all else being given. A Frontier finds the
// plans within limits; this asks it with such limits that the answer is exact and soon found.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "planning/planner/search/bounds.h"
#include "planning/planner/search/frontier.h"

namespace twobw::planner {

class Partition {
 public:
  // Splits into any number of stages, or `exactly` this number. All arguments must outlive it.
  Partition(const Problem& problem, const Setting& setting, const Places& places, const LayerSumsByKind& sums,
            std::optional<int> exactly, Frontier::Workspace& space);
  Partition(const Partition&) = delete;
  Partition& operator=(const Partition&) = delete;

  // Approximate: a plan that fits, soon found and not far from the best. Its update may take longer than
  // `below` seconds. Null: no plan takes less.
  std::optional<Estimate> solve_approximately(double below);
  // Exact without contention: the fastest plan that fits, if its update takes less than `below` seconds.
  std::optional<Estimate> solve_exactly(double below);
  // Whether an update below `below` seconds might be possible with more microbatches in flight.
  bool may_beat(double below);
  // Among the plans as fast as `best`: one with less memory on all devices together, if there is one.
  Estimate least_memory_tie(const Estimate& best);
  // The plan whose tightest stage exceeds its memory least; null: no plan is possible.
  std::optional<Estimate> least_over();

  // Keeps the plans whose update may take less than `below` seconds, by the formula with the least
  // contention; looks also for the best ones by it, and without contention.
  void keep_near_best(double below) { favoured_below_ = below; }
  std::vector<Estimate>& near_best() { return near_best_; }

  // Lower bound of the updates of plans that may have been missed, because contention is evaluated only for
  // plans found without it.
  double missed() const { return missed_; }

  // Stages worked out so far.
  std::int64_t considered() const { return frontier_.considered(); }
  std::int64_t effort() const { return frontier_.effort(); }

 private:
  using Goal = Frontier::Goal;
  using Limits = Frontier::Limits;
  // The best plan so far, and the seconds that an update must stay below to be better.
  struct Best {
    std::optional<Estimate> plan;
    double below = kUnlimited;
  };

  Goal goal() const;
  Limits limits_for(double below) const;
  bool found(Goal goal, const Limits& limits);
  // Whether a run found a plan below a target; Held: one that contention keeps above it.
  enum class Answer { None, Held, Better };
  Answer take(Best& best, double target = kUnlimited);

  void look(int stages, double below, Best& best);
  Answer beat(double target, Best& best);
  void close_in(Best& best);
  void search_between(double least, double most, Best& best);

  Setting setting_;
  bool held_up_;  // by shared links or a tie, plans may be
  Bounds bounds_;
  Frontier frontier_;
  double missed_ = kUnlimited;
  double favoured_below_ = 0;
  // Seconds of the best, without contention and with the least.
  std::array<double, 2> favourites_ = {kUnlimited, kUnlimited};
  std::vector<Estimate> near_best_;
};

}  // namespace twobw::planner
