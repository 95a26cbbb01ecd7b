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
  // Into any number of stages, or `exactly` so many. All that is referred to must outlive this.
  Partition(const Problem& problem, const Setting& setting, const Places& places, const LayerSumsByKind& sums,
            std::optional<int> exactly, Frontier::Workspace& space);
  Partition(const Partition&) = delete;
  Partition& operator=(const Partition&) = delete;

  // Some plan that fits, soon found and not far from the best. It may take more than `below` seconds an
  // update, but where none is found no plan takes less.
  std::optional<Estimate> good(double below);
  // The fastest plan that fits, if an update of it takes less than `below` seconds.
  std::optional<Estimate> fastest(double below);
  // Whether an update below `below` seconds might be possible with more microbatches in flight.
  bool may_beat(double below);
  // Of the plans as fast as `best`, one that takes less memory on all devices together, if there is one.
  Estimate least_memory_tie(const Estimate& best);
  // The plan whose tightest stage exceeds its memory least; nothing: no plan at all.
  std::optional<Estimate> least_over();

  // Keeps the plans that may have an update below so many seconds, by the formula that says least of shared
  // links; looks also for those that are best by it, and without links.
  void keep_near_best(double below) { favoured_below_ = below; }
  std::vector<Estimate>& near_best() { return near_best_; }

  // Seconds of an update, of any plan at least that may have been missed because what stages do to each other
  // over shared links was counted only for plans that were found without it.
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
  // Whether a plan is better, with an update below a target; held: some promise to be, but for what shared
  // links add.
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
  // Seconds of the best, without links and with what is said least of them.
  std::array<double, 2> favourites_ = {kUnlimited, kUnlimited};
  std::vector<Estimate> near_best_;
};

}  // namespace twobw::planner
