// Follows all ways to split the layers over the places of a pipeline, from the last stage to the first, and
// drops those that cannot become the best any more.
//
// That way round the number of stages after the present one is known, and with it the microbatches in
// flight, all of its memory, and P's loops: with P given, the loops from stage r on are met when
//
//   slack_r = max(F_r - P,  F_r + 2 c_r - (n_r - n_(r+1)) P + slack_(r+1))  <=  0,
//
// one number for all that lies behind. What the formulas of time_model.h add up or take the largest of is
// carried along in the same way. Of two ways to the same place and layer one is dropped when the other is no
// worse in every such number, since all of them only grow.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planning/planner/costs/estimate.h"
#include "planning/planner/costs/layer_sums.h"
#include "planning/planner/search/bounds.h"
#include "planning/planner/search/places.h"
#include "planning/planner/search/stage_costs.h"

namespace twobw::planner {

class Frontier {
 public:
  // What is asked for, within the limits.
  enum class Goal {
    Pace,    // the least P, and under 2BW the least update
    Bound,   // what P can be at least, however many are in flight
    Update,  // all that an update takes, but for what the limits say of P
    Span,    // a short way there and back; nearly the least sequential update
    Fits,    // any plan that fits
    Memory,  // the least bytes beyond the capacity
  };
  struct Limits {
    double pace = kAnyPace;     // P at most
    double below = kUnlimited;  // seconds of an update, or bytes beyond the capacity
    double floor = 0;           // no plan has less: seconds of P, or bytes beyond the capacity
    int stages = 0;             // at most
  };
  // Stands for no limit to a pace: infinity less infinity would not compare.
  static constexpr double kAnyPace = 1e30;

  // Memory for many searches, one after another.
  struct Workspace;

  // All that is referred to must outlive this.
  Frontier(const Problem& problem, const Setting& setting, const Places& places, const LayerSumsByKind& sums,
           std::optional<int> exactly, const Bounds& bounds, Workspace& space);

  void run(Goal goal, const Limits& limits);
  // The ways of the last run that took all layers; those of fewest stages first. Where any will do, the first
  // that was found.
  const std::vector<int>& ends() const;

  // How good an end seems: seconds of its update at least, or for memory the bytes beyond.
  double promise(int end) const;
  // The seconds of its update, with what its stages do to each other over shared links.
  struct Seconds {
    double none, hoped, all;  // Sharing::None, Sharing::Least, Sharing::All
  };
  Seconds seconds(int end) const;
  // What its update takes besides P or the like.
  double besides(int end) const { return labels_[end].total; }
  int stages(int end) const { return places_.all()[labels_[end].place].stages; }
  Estimate estimate(int end) const;

  // Bytes beyond the capacity, of the tightest stage of any plan at least.
  double least_over() const;
  // A plan with nearly as many parameters on every stage, whether it fits or not. Its run has no ends.
  std::optional<Estimate> even_split();

  // Stages worked out so far.
  std::int64_t considered() const { return considered_; }
  // With the ways that were compared: how much work that was.
  std::int64_t effort() const { return considered_ + appended_; }

 private:
  // What the stages from here on amount to; smaller is better in each.
  struct Label {
    double slack = -kUnlimited;  // or what the goal has in its place
    double span = 0, forward = 0, backward = 0, tail = 0;
    double total = 0;  // of the update, but for P and the like
    int parent = -1, place = 0, layer = 0, next = -1;
    bool recompute = false;
  };
  // A stage that might be put in front of a label.
  struct Stage {
    int after = 0, first = 0, last = 0;
    int site = 0;
    bool together = false;  // on the same nodes as all stages after it
    Transfer send;
    // What consider() finds out:
    bool recompute = false;
    StageTiming timing;
    double over = 0;
  };

  void find_least_first();
  int first_with(double parameters) const;
  int least_first_over(int last) const;
  int most_layers_before(int stages) const;

  bool prepend(Stage& stage, int first, int head, int place);
  void extend(int place, const Advance& advance);
  bool consider(Stage& stage, const StageLoad& load);
  bool waits(const Stage& stage) const;
  double way(double compute, double backward, double send) const;
  double slack_of(const Stage& stage, double compute, const Label& rest) const;
  double least_slack(const Stage& stage, int head) const;
  bool may_improve(const Stage& stage, const LayerSums& sums, int first, int head, int known) const;

  void append(const Stage& stage, int parent, int place);
  bool hopeless(const Label& label) const;
  void round_up(Label& label) const;
  bool no_worse(const Label& a, const Label& b) const;
  bool is_end(int place) const;
  bool is_dominated(const Label& label, int head) const;
  void insert(const Label& label);
  // The number of a stage with `after` stages behind it, in a pipeline of `exactly_` stages.
  int stage_before(int after) const { return exactly_.value_or(0) - 1 - after; }
  std::size_t cell(int place, int layer) const {
    return static_cast<std::size_t>(place) * (layers_ + 1) + layer;
  }

  const Problem& problem_;
  Setting setting_;
  const Places& places_;
  const LayerSumsByKind& sums_;
  std::optional<int> exactly_;  // stages
  const Bounds& bounds_;
  int layers_;
  StageCosts costs_;
  double capacity_;                            // the largest of a device
  double span_weight_;                         // in an update
  int first_tied_ = 0;                         // layer
  std::vector<std::vector<int>> least_first_;  // by kind of device and last layer

  Goal goal_ = Goal::Pace;
  Limits limits_;
  Workspace& space_;
  std::vector<Label>& labels_;
  std::int64_t considered_ = 0, appended_ = 0;
};

struct Frontier::Workspace {
  std::vector<Label> labels;
  // By place and first layer taken: lists of labels, and the newest one's slack. But for Goal::Update there
  // is no more than one.
  std::vector<int> heads;
  std::vector<double> slacks;
  // By place: the layers of its labels.
  struct Taken {
    int first, last;
  };
  std::vector<Taken> taken;
  std::vector<int> ends;
};

inline const std::vector<int>& Frontier::ends() const {
  return space_.ends;
}

}  // namespace twobw::planner
