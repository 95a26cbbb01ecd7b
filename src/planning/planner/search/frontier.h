// Dynamic programming over the splits of the layers and the places of a pipeline, from the last stage to the
// first. A label is a suffix of stages; labels of the same place and first layer compete, and the dominated
// ones are dropped (label setting with Pareto dominance, as in resource-constrained shortest paths).
//
// In this order the number of stages after a stage is known, and with it its microbatches in flight n_r, its
// memory, and the loops of time_model.h. For a limit P of the pace they are all met if slack_0 <= 0, with
//
//   slack_r = max(F_r - P,  F_r + 2 c_r - (n_r - n_(r+1)) P + slack_(r+1)),     slack_d = -infinity
//
// and the other terms of an update accumulate in the same way:
//
//   span_r = F_r + 2 c_r + span_(r+1)       (b_r + c_r with one gradient buffer: the way back)
//   tail_r = max(reduce_r + tie_r + step_r, tail_(r+1))
//   forward_r, backward_r = largest f and b  (gpipe)
//
// All of them grow with every stage in front, so a label that is at least as large in each is dominated. Pace
// runs compare the slack alone, so one label per place and layer is kept: they are exact for 2bw with two
// gradient buffers. Update runs keep the Pareto front.
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
  // Objective of a run, within the limits.
  enum class Goal {
    Pace,    // the least P, and under 2BW the least update
    Bound,   // lower bound of P, however many are in flight
    Update,  // the least update of a schedule that stalls
    Span,    // the least span: nearly the least sequential update
    Fits,    // any plan that fits
    Memory,  // the least bytes beyond the capacity
  };
  struct Limits {
    double pace = kAnyPace;     // P at most
    double below = kUnlimited;  // seconds of an update, or bytes beyond the capacity
    double floor = 0;           // no plan has less: seconds of P, or bytes beyond the capacity
    int stages = 0;             // at most
  };
  // "Unlimited", but finite: inf - inf is NaN.
  static constexpr double kAnyPace = 1e30;

  // Memory for many searches, one after another.
  struct Workspace;

  // All that is referred to must outlive this.
  Frontier(const Problem& problem, const Setting& setting, const Places& places, const LayerSumsByKind& sums,
           std::optional<int> exactly, const Bounds& bounds, Workspace& space);

  void run(Goal goal, const Limits& limits);
  // Labels of the last run that contain all layers, those of fewest stages first. Goal::Fits stops at the
  // first.
  const std::vector<int>& ends() const;

  // Lower bound of an end: seconds of its update, or for Goal::Memory its bytes beyond the capacity.
  double promise(int end) const;
  // Seconds of its update with contention on shared links.
  struct Seconds {
    double none, hoped, all;  // Sharing::None, Sharing::Least, Sharing::All
  };
  Seconds seconds(int end) const;
  // Seconds of its update without the multiple of the pace.
  double fixed_seconds(int end) const { return labels_[end].total; }
  int stages(int end) const { return places_.all()[labels_[end].place].stages; }
  Estimate estimate(int end) const;

  // Lower bound of the bytes beyond the capacity on the tightest stage.
  double least_over() const;
  // A plan with nearly as many parameters on every stage, whether it fits or not. Its run has no ends.
  std::optional<Estimate> even_split();

  // Stages worked out so far.
  std::int64_t considered() const { return considered_; }
  // Measure of the work: stages and labels.
  std::int64_t effort() const { return considered_ + appended_; }

 private:
  // A suffix of stages. Smaller is better in each number.
  struct Label {
    double slack = -kUnlimited;  // Goal::Memory: bytes beyond the capacity
    double span = 0, forward = 0, backward = 0, tail = 0;
    double total = 0;  // seconds of the update without the multiple of the pace
    int parent = -1, place = 0, layer = 0, next = -1;
    bool recompute = false;
  };
  // A stage that might be put in front of a label.
  struct Stage {
    int after = 0, first = 0, last = 0;
    int site = 0;
    bool together = false;  // on the same nodes as all stages after it
    Transfer send;
    // Results of consider():
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
  // By place and first layer: linked lists of labels, and the newest one's slack. Only Goal::Update has more
  // than one label in a list.
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
