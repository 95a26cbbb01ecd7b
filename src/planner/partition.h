// The best split of the layers over the places of a pipeline, all else being given: exact, by dynamic
// programming from the last stage to the first.
//
// That way round the number of stages after the present one is known, and with it the microbatches in
// flight, all of its memory, and P's loops: with P given, the loops from stage r on are met when
//
//   slack_r = max(F_r - P,  F_r + 2 c_r - (n_r - n_(r+1)) P + slack_(r+1))  <=  0,
//
// one number for all that lies behind. What the formulas of time_model.h add up or take the largest
// of is carried along in the same way; of two ways to the same place and layer one is dropped when the other
// is no worse in every such number, since all of them only grow. P itself is found by asking for a plan that
// beats the best known, until there is none.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "planner/loads.h"
#include "planner/placement.h"
#include "planner/stage_costs.h"
#include "planner/time_model.h"

namespace twobw::planner {

inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();
// Plans whose times differ by less than this part are as good as each other.
inline constexpr double kSame = 1e-9;

class Partition {
 public:
  // Memory for many searches, one after another.
  struct Workspace;

  // Into any number of stages, or `exactly` so many. All that is referred to must outlive this.
  Partition(const Problem& problem, const Setting& setting, const Places& places, const LoadsByKind& loads,
            std::optional<int> exactly, Workspace& space);

  // Sequences a second that no plan exceeds; 0: there is no plan.
  double most_throughput() const;
  // Whether any plan fits.
  bool fits();
  // Some plan that fits, soon found and not far from the best. It may take more than `below` seconds an
  // update, but where none is found no plan takes less.
  std::optional<Estimate> quick(double below);
  // The same with P within two hundredths of the least.
  std::optional<Estimate> good(double below);
  // The fastest plan that fits, if an update of it takes less than `below` seconds.
  std::optional<Estimate> fastest(double below);
  // Whether an update below `below` seconds might be possible with more microbatches in flight.
  bool may_beat(double below);
  // Of the plans as fast as `best`, one that takes less memory on all devices together, if there is one.
  Estimate frugal(const Estimate& best);
  // The plan whose tightest stage exceeds its memory least; nothing: no plan at all.
  std::optional<Estimate> least_over();

  std::int64_t considered() const { return considered_; }

 private:
  enum class Goal {
    Pace,    // P alone, below pace_
    Bound,   // what P can be at least, however many are in flight
    Update,  // the whole update, below below_
    Fits,    // any plan that fits
    Memory,  // bytes beyond the capacity
  };
  // What the stages from here on amount to; smaller is better in each.
  struct Label {
    double slack = -kUnlimited, span = 0, forward = 0, backward = 0, tail = 0;
    double total = 0;  // of the update, but for P and the like
    int parent = -1, place = 0, layer = 0, next = -1;
    bool recompute = false;
  };
  // A stage that might be put in front of a label.
  struct Stage {
    int after = 0, first = 0, last = 0;
    int seat = 0;
    bool together = false;  // on the same nodes as all stages after it
    Transfer send;
    // What consider() finds out:
    bool recompute = false;
    StageTiming timing;
    double over = 0;
  };

  bool possible() const;
  double least_update() const;
  void run(Goal goal);
  void find_least_first();
  void find_least_times();
  int least_first_over(int last) const;
  void extend(int place, const Advance& advance);
  bool may_improve(const Stage& stage, double compute, int head, int known) const;
  bool waits(const Stage& stage) const;
  double slack_of(const Stage& stage, double compute, const Label& rest) const;
  int most_layers_before(int stages) const;
  bool consider(Stage& stage, const StageLoad& load);
  void append(const Stage& stage, int parent, int place);
  bool hopeless(const Label& label) const;
  static bool no_worse(const Label& a, const Label& b);
  bool is_dominated(const Label& label, int head) const;
  void round_up(Label& label) const;
  void insert(const Label& label);

  Estimate estimate(int label) const;
  Estimate even_split();
  double promise(const Label& label) const;
  bool take_best(std::optional<Estimate>& best, double& below);
  bool beat(double target, std::optional<Estimate>& best, double& below);
  void close_in(std::optional<Estimate>& best, double& below);
  void search_between(double least, double most, std::optional<Estimate>& best, double& below);
  void set_limits(double below, double besides);

  const Problem& problem_;
  Setting setting_;
  const Places& places_;
  const LoadsByKind& loads_;
  std::optional<int> exactly_;  // stages
  int layers_;
  int most_stages_;
  StageCosts costs_;
  double capacity_;                                                 // the largest of a device
  int first_tied_ = 0;                                              // layer
  double least_pace_ = 0;                                           // no P is below
  double least_forward_ = 0, least_backward_ = 0, least_tail_ = 0;  // of the slowest stage of any plan
  std::vector<double> least_compute_;     // seconds of the layers before each, on the fastest kind
  std::vector<double> least_parameters_;  // parameters of the layers before each

  Goal goal_ = Goal::Pace;
  double pace_ = 0, below_ = 0;
  double floor_ = 0;    // plans with P below it are not asked for
  double span_weight_;  // of the span, in an update
  std::vector<std::vector<int>> least_first_;
  Workspace& space_;
  std::vector<Label>& labels_;
  std::vector<int>& ends_;  // labels that cover all layers
  std::int64_t considered_ = 0;
};

struct Partition::Workspace {
  std::vector<Label> labels;
  std::vector<int> heads;  // by place and first layer covered
  std::vector<int> ends;
};

}  // namespace twobw::planner
