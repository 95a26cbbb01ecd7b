// What no plan of a setting can beat, told by its layers and the number of its places alone.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "planning/planner/costs/layer_sums.h"
#include "planning/planner/costs/stage_timing.h"
#include "planning/planner/search/places.h"

namespace twobw::planner {

inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();
// Plans whose times differ by less than this part are as good as each other.
inline constexpr double kSame = 1e-9;

class Bounds {
 public:
  // For any number of stages, or `exactly` so many.
  Bounds(const Problem& problem, const Setting& setting, const Places& places, const LayerSumsByKind& sums,
         std::optional<int> exactly);

  // Whether the schedule, the layers and the places allow any number of stages.
  bool possible() const { return possible_; }
  int stages() const { return stages_; }  // at most

  // Seconds, of any plan with at most so many stages at least:
  double update(int stages) const;
  double pace(int stages) const;  // P
  // More stages than these do not lower the bound of P.
  int useful_stages() const;

  // Seconds, of any plan at least:
  double update() const { return update(stages_); }
  double pace() const { return pace_; }
  double compute() const { return compute_.back(); }  // of one microbatch, all stages together
  double way() const { return way_.back(); }          // that all stages wait for once an update
  double forward() const { return forward_; }         // of the slowest stage
  double backward() const { return backward_; }
  double tail() const { return tail_; }  // reduction and step of the slowest stage

  // Sequences a second, of any plan at most; 0: there is no plan.
  double throughput() const;

  // Of the layers before each: seconds on the fastest kind, all of them or those of the way, and parameters,
  // ties not counted.
  const std::vector<double>& compute_before() const { return compute_; }
  const std::vector<double>& way_before() const { return way_; }
  const std::vector<double>& parameters_before() const { return parameters_; }

 private:
  double pace(int stages, int groups) const;
  double update_of_links(int stages) const;

  Setting setting_;
  int stages_;
  bool possible_ = false;
  double slowest_ = 0;  // layer
  double forward_ = 0, backward_ = 0, tail_ = 0;
  double steps_ = 0;  // 2BW: reductions of a stage, or its step, whichever are longer
  double sums_ = 0;   // over replicas, an update: with ends of the network busy, all groups of nodes together
  double crossing_ = 0;  // one transfer from a group to another: with an end busy
  double pace_ = 0;
  std::vector<int> most_stages_;  // by groups, less one
  std::vector<double> compute_, way_, parameters_;
};

}  // namespace twobw::planner
