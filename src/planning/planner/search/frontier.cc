#include "planning/planner/search/frontier.h"

#include <algorithm>

#include "planning/planner/costs/time_model.h"

namespace twobw::planner {

using schedule::Kind;

Frontier::Frontier(const Problem& problem, const Setting& setting, const Places& places,
                   const LayerSumsByKind& sums, std::optional<int> exactly, const Bounds& bounds,
                   Workspace& space)
    : problem_(problem),
      setting_(setting),
      places_(places),
      sums_(sums),
      exactly_(exactly),
      bounds_(bounds),
      layers_(static_cast<int>(problem.layers.size())),
      costs_(problem, setting, places, bounds.stages(), exactly),
      capacity_(costs_.largest_capacity()),
      span_weight_(setting.shape.schedule == Kind::Sequential ? setting.shape.microbatches : 1),
      space_(space),
      labels_(space.labels) {
  while (first_tied_ < layers_ && problem.layers[first_tied_].tied <= 0) ++first_tied_;
  find_least_first();
}

// By kind of device and last layer: the earliest first layer of a stage that may fit.
void Frontier::find_least_first() {
  least_first_.resize(sums_.size());
  for (int site = 0; site < std::ssize(places_.sites()); ++site) {
    const int kind = places_.sites()[site].kind;
    if (sums_[kind] == nullptr || !least_first_[kind].empty() || bounds_.stages() == 0) continue;
    int first = 0;
    for (int last = 0; last <= layers_; ++last) {
      while (first < last && costs_.hopeless(site, sums_[kind]->of(first, last))) ++first;
      least_first_[kind].push_back(first);
    }
  }
}

// The first layer with at least `parameters` parameters before it.
int Frontier::first_with(double parameters) const {
  const std::vector<double>& before = bounds_.parameters_before();
  return static_cast<int>(std::lower_bound(before.begin(), before.end(), parameters) - before.begin());
}

// Same for Goal::Memory, where a stage may exceed its memory up to the limit.
int Frontier::least_first_over(int last) const {
  const double most = (limits_.below + capacity_) * (1 + kSame) / costs_.least_state();
  return first_with(bounds_.parameters_before()[last] - most);
}

// Labels ------------------------------------------------------------------------------------------

// The most layers that the first `stages` stages can hold; the current stage takes the rest.
int Frontier::most_layers_before(int stages) const {
  if (stages <= 0) return 0;
  int most = layers_;
  if (goal_ == Goal::Memory) return most;
  const auto up_to = [&](const std::vector<double>& sums, double limit) {
    return static_cast<int>(std::upper_bound(sums.begin(), sums.end(), limit) - sums.begin()) - 1;
  };
  most = std::min(most, up_to(bounds_.compute_before(), stages * limits_.pace * (1 + kSame)));
  return std::min(
      most, up_to(bounds_.parameters_before(), stages * capacity_ * (1 + kSame) / costs_.least_state()));
}

// Whether a lower bound of all plans with this suffix exceeds the limit.
bool Frontier::hopeless(const Label& label) const {
  if (goal_ == Goal::Memory) return label.slack >= limits_.below;
  if (goal_ != Goal::Update || label.layer == 0) return false;
  const Place& place = places_.all()[label.place];
  const int left = std::min(place.reach, limits_.stages - place.stages);
  const double rest = bounds_.compute_before()[label.layer];
  const double others = setting_.shape.microbatches - 1;
  if (stalls(setting_)) {
    // The loop that the slack is of takes at least one microbatch.
    return bounds_.way_before()[label.layer] + label.total +
               others * std::max({limits_.floor, rest / left, limits_.pace + label.slack}) >=
           limits_.below;
  }
  if (setting_.shape.schedule == Kind::GPipe) {
    return rest + label.total + others * std::max(label.forward + label.backward, rest / left) >=
           limits_.below;
  }
  return setting_.shape.microbatches * rest + label.total >= limits_.below;
}

// Raises the slack to the largest value that has no effect on any stage in front, so that more labels are
// dominated.
void Frontier::round_up(Label& label) const {
  const Place& place = places_.all()[label.place];
  if (label.layer == 0 || place.stages >= limits_.stages) return;
  const double ahead =
      (costs_.in_flight(place.stages) - costs_.in_flight(place.stages - 1) - 1) * limits_.pace;
  double harmless = kUnlimited;
  for (const Advance& advance : place.next) {
    const int front = places_.all()[advance.place].site;
    const LayerSums* sums = sums_[places_.sites()[front].kind];
    if (sums == nullptr) continue;
    const double bytes = sums->output(label.layer - 1);
    harmless =
        std::min(harmless, ahead - 2 * costs_.send(front, place.site, advance.same_group, bytes).seconds);
  }
  if (harmless < kUnlimited) label.slack = std::max(label.slack, std::min(harmless, 0.0));
}

// A longer tail may be hidden by another stage, so it counts only as part of the total.
bool Frontier::no_worse(const Label& a, const Label& b) const {
  if (goal_ != Goal::Update) return a.slack <= b.slack;
  return a.slack <= b.slack && a.span <= b.span && a.total <= b.total && a.forward <= b.forward &&
         a.backward <= b.backward;
}

bool Frontier::is_dominated(const Label& label, int head) const {
  for (int i = head; i >= 0; i = labels_[i].next) {
    if (no_worse(labels_[i], label)) return true;
  }
  return false;
}

void Frontier::insert(const Label& label) {
  int& head = space_.heads[cell(label.place, label.layer)];
  if (is_dominated(label, head)) return;
  space_.slacks[cell(label.place, label.layer)] = label.slack;
  Workspace::Taken& taken = space_.taken[label.place];
  taken = {std::min(taken.first, label.layer), std::max(taken.last, label.layer)};
  for (int* link = &head; *link >= 0;) {
    if (no_worse(label, labels_[*link])) {
      *link = labels_[*link].next;
    } else {
      link = &labels_[*link].next;
    }
  }
  labels_.push_back(label);
  labels_.back().next = head;
  head = static_cast<int>(labels_.size()) - 1;
}

// Stages ------------------------------------------------------------------------------------------

// Computes the costs of the stage. Returns whether it can be part of a plan.
bool Frontier::consider(Stage& stage, const StageLoad& load) {
  ++considered_;
  const std::optional<bool> fixed = problem_.fixed.recomputes(stage_before(stage.after));
  // Recomputation costs time: only for stages that do not fit without it.
  stage.recompute = fixed.value_or(false);
  if (goal_ == Goal::Bound) {
    stage.timing = costs_.timing(stage.site, load, stage.recompute, false, false);
    return stage.timing.compute() <= limits_.pace;
  }
  const bool first = stage.first == 0;
  stage.over = costs_.over(stage.site, stage.after, first, load, stage.recompute);
  if (stage.over > 0 && !fixed) {
    const double recomputed = costs_.over(stage.site, stage.after, first, load, true);
    if (recomputed < stage.over) {
      stage.recompute = true;
      stage.over = recomputed;
    }
  }
  if (goal_ == Goal::Memory) return stage.over < limits_.below;
  if (stage.over > 0) return false;
  if (goal_ == Goal::Fits) return true;

  const bool tie = load.tied > 0 && stage.first <= first_tied_;
  stage.timing = costs_.timing(stage.site, load, stage.recompute, tie, stage.together);
  stage.timing.send = stage.send.seconds;
  stage.timing.busy = stage.send.busy;
  const double compute = stage.timing.compute();
  if (setting_.shape.schedule != Kind::TwoBW) return compute <= limits_.pace;
  const double shared = compute + update_share(setting_, costs_.in_flight(stage.after), stage.timing);
  // With one gradient buffer P is not all of an update, and may be limited to less than the shares are.
  if (!setting_.one_gradient()) return shared <= limits_.pace;
  return compute <= limits_.pace && setting_.shape.microbatches * shared <= limits_.below;
}

// Seconds that a stage adds to the span.
double Frontier::way(double compute, double backward, double send) const {
  return setting_.one_gradient() ? backward + send : compute + 2 * send;
}

// Whether the stage may have to wait for room.
bool Frontier::waits(const Stage& stage) const {
  return setting_.shape.schedule == Kind::TwoBW ||
         (setting_.shape.schedule == Kind::Flush &&
          costs_.in_flight(stage.after) < setting_.shape.microbatches);
}

double Frontier::slack_of(const Stage& stage, double compute, const Label& rest) const {
  const double alone = compute - limits_.pace;
  if (stage.after == 0) return alone;
  const int ahead = costs_.in_flight(stage.after) - costs_.in_flight(stage.after - 1);
  return std::max(alone, compute + 2 * stage.send.seconds - ahead * limits_.pace + rest.slack);
}

// The label of the stage in front of another label.
void Frontier::append(const Stage& stage, int parent, int place) {
  ++appended_;
  const Label& rest = labels_[parent];
  Label label{.parent = parent, .place = place, .layer = stage.first, .recompute = stage.recompute};
  const StageTiming& timing = stage.timing;
  if (goal_ == Goal::Memory) label.slack = std::max(rest.slack, stage.over);
  if (goal_ == Goal::Pace || goal_ == Goal::Update || goal_ == Goal::Span) {
    if (waits(stage)) label.slack = slack_of(stage, timing.compute(), rest);
    if (label.slack > 0) return;
    label.span = rest.span + way(timing.compute(), timing.backward, timing.send);
    label.tail = std::max({rest.tail, timing.reduce + timing.tie + timing.step, bounds_.tail()});
    label.total = span_weight_ * label.span + label.tail;
    if (goal_ == Goal::Span) label.slack = label.total / span_weight_;
    if (setting_.shape.schedule == Kind::GPipe) {
      label.forward = std::max({rest.forward, timing.forward, timing.busy, bounds_.forward()});
      label.backward = std::max({rest.backward, timing.backward, timing.busy, bounds_.backward()});
    }
  }
  if (hopeless(label)) return;
  if (goal_ == Goal::Update && stalls(setting_)) round_up(label);
  insert(label);
}

// Lower bound of the slack of a stage in front of any label of the list, less its computation.
double Frontier::least_slack(const Stage& stage, int head) const {
  if (goal_ == Goal::Span) return (labels_[head].total / span_weight_ + 2 * stage.send.seconds) * (1 + kSame);
  if ((goal_ != Goal::Pace && goal_ != Goal::Update) || !waits(stage)) return -kUnlimited;
  double least = kUnlimited;
  for (int i = head; i >= 0; i = labels_[i].next) least = std::min(least, slack_of(stage, 0, labels_[i]));
  return least;
}

// Whether a stage of the layers from `first` on, in front of any label of the list, may be better than all
// known labels. Counts its computation alone.
bool Frontier::may_improve(const Stage& stage, const LayerSums& sums, int first, int head, int known) const {
  const double compute = sums.compute(first, stage.last);
  const double added = way(compute, sums.backward(first, stage.last), stage.send.seconds);
  for (int i = head; i >= 0; i = labels_[i].next) {
    const Label& rest = labels_[i];
    Label label;
    label.slack = waits(stage) ? slack_of(stage, compute, rest) : -kUnlimited;
    label.span = rest.span + added;
    label.total = span_weight_ * label.span + std::max(rest.tail, bounds_.tail());
    if (setting_.shape.schedule == Kind::GPipe) {
      label.forward = std::max(rest.forward, bounds_.forward());
      label.backward = std::max(rest.backward, bounds_.backward());
    }
    if (!is_dominated(label, known)) return true;
  }
  return false;
}

// Puts the stage in front of all labels of the list if it can be part of a plan. Returns whether a longer one
// might.
bool Frontier::prepend(Stage& stage, int first, int head, int place) {
  stage.first = first;
  const StageLoad load = sums_[places_.sites()[stage.site].kind]->of(first, stage.last);
  if (consider(stage, load)) {
    // insert() touches other cells only.
    for (int i = head; i >= 0; i = labels_[i].next) append(stage, i, place);
    return true;
  }
  return goal_ == Goal::Bound ||
         !costs_.hopeless(stage.site, stage.after, load, goal_ == Goal::Memory ? limits_.below : 0);
}

void Frontier::extend(int place, const Advance& advance) {
  const Place &next = places_.all()[place], &here = places_.all()[advance.place];
  Stage stage{.after = next.stages, .site = here.site, .together = here.groups == 1};
  const int kind = places_.sites()[stage.site].kind;
  const LayerSums* sums = sums_[kind];
  if (sums == nullptr || stage.after >= limits_.stages) return;
  const bool timed = goal_ != Goal::Memory && goal_ != Goal::Fits;
  const std::optional<int> fixed = problem_.fixed.first_layer(stage_before(stage.after));
  const int most_first = most_layers_before(std::min(here.reach, limits_.stages - here.stages));
  const int* heads = &space_.heads[cell(place, 0)];
  const int* known = &space_.heads[cell(advance.place, 0)];
  const std::vector<double>& parameters = bounds_.parameters_before();
  const double* known_slack = &space_.slacks[cell(advance.place, 0)];
  // Short stages first: they leave most slack, and dominate most others before those are computed.
  const Workspace::Taken taken = space_.taken[place];
  for (stage.last = std::max(1, taken.first); stage.last <= taken.last; ++stage.last) {
    const int head = heads[stage.last];
    if (head < 0) continue;
    if (stage.after > 0) {
      stage.send = costs_.send(stage.site, next.site, advance.same_group, sums->output(stage.last - 1));
      if (timed && stage.send.busy > limits_.pace) continue;
    }
    const double slack = least_slack(stage, head), over = labels_[head].slack;
    const bool loops = goal_ == Goal::Pace || goal_ == Goal::Update;
    const double most = !timed ? kUnlimited : loops ? std::min(limits_.pace, -slack) : limits_.pace;
    const int begin = std::min({stage.last - 1, most_first, fixed.value_or(layers_)});
    const int least_first =
        std::max(goal_ == Goal::Memory ? least_first_over(stage.last) : least_first_[kind][stage.last],
                 fixed.value_or(0));
    // A cheap comparison with the known labels first skips most stages.
    const auto lengthen = [&](auto may_be_better) {
      for (int first = begin; first >= least_first; --first) {
        const double compute = sums->compute(first, stage.last);
        if (compute > most) return;
        if (may_be_better(first, compute) && !prepend(stage, first, head, advance.place)) return;
      }
    };
    switch (goal_) {
      case Goal::Update:
        lengthen([&](int first, double) { return may_improve(stage, *sums, first, head, known[first]); });
        break;
      case Goal::Memory:
        lengthen([&](int first, double) {
          const double least = costs_.least_over(stage.site, parameters[stage.last] - parameters[first]);
          return std::max(over, least) < known_slack[first];
        });
        break;
      default:
        lengthen([&](int first, double compute) { return compute + slack < known_slack[first]; });
    }
  }
}

// Whether plans that begin here were found.
bool Frontier::is_end(int place) const {
  return space_.heads[cell(place, 0)] >= 0 && (!exactly_ || places_.all()[place].stages == *exactly_);
}

void Frontier::run(Goal goal, const Limits& limits) {
  goal_ = goal;
  limits_ = limits;
  labels_.clear();
  space_.heads.assign(cell(static_cast<int>(places_.all().size()), 0), -1);
  space_.slacks.assign(space_.heads.size(), kUnlimited);
  space_.taken.assign(places_.all().size(), {layers_, -1});
  insert({.slack = goal == Goal::Memory ? limits.floor : -kUnlimited, .layer = layers_});
  const bool any = goal == Goal::Fits || goal == Goal::Bound;
  for (int place = 0; place < std::ssize(places_.all()); ++place) {
    if (any && is_end(place)) break;
    for (const Advance& advance : places_.all()[place].next) extend(place, advance);
  }
  space_.ends.clear();
  for (int place = 0; place < std::ssize(places_.all()); ++place) {
    if (!is_end(place)) continue;
    for (int i = space_.heads[cell(place, 0)]; i >= 0; i = labels_[i].next) {
      space_.ends.push_back(i);
    }
  }
}

}  // namespace twobw::planner
