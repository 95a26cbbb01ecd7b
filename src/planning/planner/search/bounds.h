// Lower bounds for a setting, from its layers and the number of its places.
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
  // Bounds for any number of stages, or for `exactly` this number.
  Bounds(const Problem& problem, const Setting& setting, const Places& places, const LayerSumsByKind& sums,
         std::optional<int> exactly);

  // Whether any number of stages is possible.
  bool possible() const { return possible_; }
  int stages() const { return stages_; }  // at most

  // Lower bounds in seconds, for plans with at most `stages` stages:
  double update(int stages) const;
  double pace(int stages) const;  // P
  // More stages do not lower the bound of P.
  int useful_stages() const;

  // Lower bounds in seconds, for all plans:
  double update() const { return update(stages_); }
  double pace() const { return pace_; }
  double compute() const { return compute_.back(); }  // one microbatch, all stages together
  double way() const { return way_.back(); }          // the part of it that stalls all stages once an update
  double forward() const { return forward_; }         // slowest stage
  double backward() const { return backward_; }
  double tail() const { return tail_; }  // reduction and step of the slowest stage

  // Upper bound in sequences a second; 0: no plan is possible.
  double throughput() const;

  // Prefix sums over the layers: seconds on the fastest kind, those of way(), and parameters without ties.
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
  double steps_ = 0;     // 2BW: reductions of a stage, or its step, whichever are longer
  double sums_ = 0;      // seconds of the network for sums over replicas, all groups of nodes together
  double crossing_ = 0;  // seconds of the network for one transfer between groups
  double pace_ = 0;
  std::vector<int> most_stages_;  // by groups, less one
  std::vector<double> compute_, way_, parameters_;
};

}  // namespace twobw::planner
