#include "planner/partition.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"

namespace twobw::planner {
namespace {

using schedule::Kind;

// Stands for no bound on a pace: infinity less infinity would not compare.
constexpr double kAnyPace = 1e30;

// By the layers, the places, and the microbatches that the schedule needs.
int most_stages(const Problem& problem, const Setting& setting, const Places& places,
                std::optional<int> exactly) {
  int most = std::min(static_cast<int>(problem.layers.size()), places.all().front().reach);
  if (exactly) most = std::min(most, *exactly);
  while (most > 0 && schedule::smallest_microbatches(spec_of(setting, most)) > setting.microbatches) --most;
  return most;
}

}  // namespace

Partition::Partition(const Problem& problem, const Setting& setting, const Places& places,
                     const LoadsByKind& loads, std::optional<int> exactly, Workspace& space)
    : problem_(problem),
      setting_(setting),
      places_(places),
      loads_(loads),
      exactly_(exactly),
      layers_(static_cast<int>(problem.layers.size())),
      most_stages_(most_stages(problem, setting, places, exactly)),
      costs_(problem, setting, places, most_stages_, exactly),
      capacity_(costs_.largest_capacity()),
      span_weight_(setting.schedule == Kind::Sequential ? setting.microbatches : 1),
      space_(space),
      labels_(space.labels),
      ends_(space.ends) {
  least_compute_.assign(layers_ + 1, 0);
  least_parameters_.assign(layers_ + 1, 0);
  double slowest_layer = 0;
  for (int layer = 0; layer < layers_; ++layer) {
    double least = kUnlimited;
    for (const Seat& seat : places.seats()) {
      if (loads[seat.kind] == nullptr) continue;
      const StageLoad load = loads[seat.kind]->of(layer, layer + 1);
      least = std::min(least, load.forward + load.backward);
    }
    least_compute_[layer + 1] = least_compute_[layer] + least;
    least_parameters_[layer + 1] =
        least_parameters_[layer] + problem.layers[layer].parameters - problem.layers[layer].tied;
    slowest_layer = std::max(slowest_layer, least);
  }
  least_pace_ = most_stages_ > 0 ? std::max(slowest_layer, least_compute_.back() / most_stages_) : 0;
  while (first_tied_ < layers_ && problem.layers[first_tied_].tied <= 0) ++first_tied_;
  find_least_first();
  find_least_times();
}

// What no plan is below: some stage has the largest layer, and some stage at least its part of the whole.
void Partition::find_least_times() {
  if (!possible()) return;
  double parameters = least_parameters_.back() / most_stages_;
  for (const LayerShape& layer : problem_.layers)
    parameters = std::max(parameters, layer.parameters - layer.tied);
  StageLoad load;
  load.parameters = parameters;
  least_forward_ = least_backward_ = least_tail_ = kUnlimited;
  for (int seat = 0; seat < std::ssize(places_.seats()); ++seat) {
    const Loads* loads = loads_[places_.seats()[seat].kind];
    if (loads == nullptr) continue;
    const StageLoad all = loads->of(0, layers_);
    double forward = all.forward / most_stages_, backward = all.backward / most_stages_;
    for (int layer = 0; layer < layers_; ++layer) {
      forward = std::max(forward, loads->of(layer, layer + 1).forward);
      backward = std::max(backward, loads->of(layer, layer + 1).backward);
    }
    least_forward_ = std::min(least_forward_, forward);
    least_backward_ = std::min(least_backward_, backward);
    const StageTiming timing = costs_.timing(seat, load, false, false, false);
    least_tail_ = std::min(least_tail_, timing.reduce + timing.step);
  }
  // Kinds differ, and rounding too.
  least_forward_ *= 1 - kSame;
  least_backward_ *= 1 - kSame;
  least_tail_ *= 1 - kSame;
}

// By kind of device, for stages that end before each layer, the layer before which none that fits can begin.
void Partition::find_least_first() {
  least_first_.resize(loads_.size());
  for (int seat = 0; seat < std::ssize(places_.seats()); ++seat) {
    const int kind = places_.seats()[seat].kind;
    if (loads_[kind] == nullptr || !least_first_[kind].empty() || most_stages_ == 0) continue;
    int first = 0;
    for (int last = 0; last <= layers_; ++last) {
      // With fewest in flight, at the last stage, most fit.
      while (first < last && costs_.hopeless(seat, 0, loads_[kind]->of(first, last), 0)) ++first;
      least_first_[kind].push_back(first);
    }
  }
}

// The same for a stage that may exceed its memory by below_.
int Partition::least_first_over(int last) const {
  const double parameters =
      least_parameters_[last] - (below_ + capacity_) * (1 + kSame) / costs_.least_state();
  return static_cast<int>(std::lower_bound(least_parameters_.begin(), least_parameters_.end(), parameters) -
                          least_parameters_.begin());
}

// Labels ------------------------------------------------------------------------------------------

// With so many stages left, the most layers that they can take: the rest must go to the present stage.
int Partition::most_layers_before(int stages) const {
  if (stages <= 0) return 0;
  int most = layers_;
  if (goal_ == Goal::Memory) return most;
  const auto up_to = [&](const std::vector<double>& sums, double limit) {
    return static_cast<int>(std::upper_bound(sums.begin(), sums.end(), limit) - sums.begin()) - 1;
  };
  most = std::min(most, up_to(least_compute_, stages * pace_ * (1 + kSame)));
  return std::min(most, up_to(least_parameters_, stages * capacity_ * (1 + kSame) / costs_.least_state()));
}

// Whether what no plan from here on can avoid is already too much.
bool Partition::hopeless(const Label& label) const {
  if (goal_ == Goal::Memory) return label.slack >= below_;
  if (goal_ != Goal::Update || label.layer == 0) return false;
  const Place& place = places_.all()[label.place];
  const int left = std::min(place.reach, most_stages_ - place.stages);
  const double rest = least_compute_[label.layer];
  const double others = setting_.microbatches - 1;
  switch (setting_.schedule) {
    case Kind::Flush:
      // The loop that the slack is of takes at least one microbatch.
      return rest + label.total + others * std::max({floor_, rest / left, pace_ + label.slack}) >= below_;
    case Kind::GPipe:
      return rest + label.total + others * std::max(label.forward + label.backward, rest / left) >= below_;
    default:
      return setting_.microbatches * rest + label.total >= below_;
  }
}

// Raises the slack to the most that makes no difference to any stage in front.
void Partition::round_up(Label& label) const {
  const Place& place = places_.all()[label.place];
  if (label.layer == 0 || place.stages >= most_stages_) return;
  const double ahead = (costs_.in_flight(place.stages) - costs_.in_flight(place.stages - 1) - 1) * pace_;
  double harmless = kUnlimited;
  for (const Advance& advance : place.next) {
    const int front = places_.all()[advance.place].seat;
    const Loads* loads = loads_[places_.seats()[front].kind];
    if (loads == nullptr) continue;
    const double bytes = loads->output(label.layer - 1);
    harmless =
        std::min(harmless, ahead - 2 * costs_.send(front, place.seat, advance.same_group, bytes).seconds);
  }
  if (harmless < kUnlimited) label.slack = std::max(label.slack, std::min(harmless, 0.0));
}

// Of two tails the longer may be hidden by one still to come; so it counts only on top of the span.
bool Partition::no_worse(const Label& a, const Label& b) {
  return a.slack <= b.slack && a.span <= b.span && a.total <= b.total && a.forward <= b.forward &&
         a.backward <= b.backward;
}

bool Partition::is_dominated(const Label& label, int head) const {
  for (int i = head; i >= 0; i = labels_[i].next) {
    if (no_worse(labels_[i], label)) return true;
  }
  return false;
}

void Partition::insert(const Label& label) {
  int& head = space_.heads[static_cast<std::size_t>(label.place) * (layers_ + 1) + label.layer];
  if (is_dominated(label, head)) return;
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

// Works out the stage. Returns whether it can be part of a plan.
bool Partition::consider(Stage& stage, const StageLoad& load) {
  ++considered_;
  if (goal_ == Goal::Bound) {
    stage.timing = costs_.timing(stage.seat, load, problem_.recompute.value_or(false), false, false);
    return stage.timing.compute() <= pace_;
  }
  const bool first = stage.first == 0;
  // Recomputation only costs time: it is for those that need it.
  stage.recompute = problem_.recompute.value_or(false);
  stage.over = costs_.over(stage.seat, stage.after, first, load, stage.recompute);
  if (stage.over > 0 && !problem_.recompute) {
    const double recomputed = costs_.over(stage.seat, stage.after, first, load, true);
    if (recomputed < stage.over) {
      stage.recompute = true;
      stage.over = recomputed;
    }
  }
  if (goal_ == Goal::Memory) return stage.over < below_;
  if (stage.over > 0) return false;
  if (goal_ == Goal::Fits) return true;

  const bool tie = load.tied > 0 && stage.first <= first_tied_;
  stage.timing = costs_.timing(stage.seat, load, stage.recompute, tie, stage.together);
  stage.timing.send = stage.send.seconds;
  stage.timing.busy = stage.send.busy;
  const double share = setting_.schedule == Kind::TwoBW
                           ? update_share(setting_, costs_.in_flight(stage.after), stage.timing)
                           : 0;
  return stage.timing.compute() + share <= pace_;
}

// Whether the stage may have to wait for room.
bool Partition::waits(const Stage& stage) const {
  return setting_.schedule == Kind::TwoBW ||
         (setting_.schedule == Kind::Flush && costs_.in_flight(stage.after) < setting_.microbatches);
}

double Partition::slack_of(const Stage& stage, double compute, const Label& rest) const {
  const double alone = compute - pace_;
  if (stage.after == 0) return alone;
  const int ahead = costs_.in_flight(stage.after) - costs_.in_flight(stage.after - 1);
  return std::max(alone, compute + 2 * stage.send.seconds - ahead * pace_ + rest.slack);
}

// The label of the stage in front of another label.
void Partition::append(const Stage& stage, int parent, int place) {
  const Label& rest = labels_[parent];
  Label label{.parent = parent, .place = place, .layer = stage.first, .recompute = stage.recompute};
  const StageTiming& timing = stage.timing;
  if (goal_ == Goal::Memory) {
    label.slack = std::max(rest.slack, stage.over);
  } else if ((goal_ == Goal::Pace || goal_ == Goal::Update) && waits(stage)) {
    label.slack = slack_of(stage, timing.compute(), rest);
    if (label.slack > 0) return;
  }
  if (goal_ == Goal::Update) {
    label.span = rest.span + timing.compute() + 2 * timing.send;
    label.tail = std::max({rest.tail, timing.reduce + timing.step, least_tail_});
    label.total = span_weight_ * label.span + label.tail;
    if (setting_.schedule == Kind::GPipe) {
      label.forward = std::max({rest.forward, timing.forward, timing.busy, least_forward_});
      label.backward = std::max({rest.backward, timing.backward, timing.busy, least_backward_});
    }
  }
  if (hopeless(label)) return;
  if (goal_ == Goal::Update && setting_.schedule == Kind::Flush) round_up(label);
  insert(label);
}

// Whether a stage of so much computation, if it costs nothing else and fits, would be better in front of any
// label of the list than all that is known. It saves working out most of the stages.
bool Partition::may_improve(const Stage& stage, double compute, int head, int known) const {
  if (known < 0) return true;
  const Label &rest = labels_[head], &best = labels_[known];
  switch (goal_) {
    case Goal::Fits:
    case Goal::Bound:
      return false;
    case Goal::Memory: {
      const double parameters = least_parameters_[stage.last] - least_parameters_[stage.first];
      return std::max(rest.slack, costs_.least_state() * parameters - capacity_) < best.slack;
    }
    case Goal::Pace:
      return !waits(stage) ? false : slack_of(stage, compute, rest) < best.slack;
    case Goal::Update:
      break;
  }
  for (int i = head; i >= 0; i = labels_[i].next) {
    Label label;
    label.slack = waits(stage) ? slack_of(stage, compute, labels_[i]) : -kUnlimited;
    label.span = labels_[i].span + compute + 2 * stage.send.seconds;
    label.total = span_weight_ * label.span + std::max(labels_[i].tail, least_tail_);
    label.forward = setting_.schedule == Kind::GPipe ? std::max(labels_[i].forward, least_forward_) : 0;
    label.backward = setting_.schedule == Kind::GPipe ? std::max(labels_[i].backward, least_backward_) : 0;
    if (!is_dominated(label, known)) return true;
  }
  return false;
}

void Partition::extend(int place, const Advance& advance) {
  const Place &next = places_.all()[place], &here = places_.all()[advance.place];
  Stage stage{.after = next.stages, .seat = here.seat, .together = here.groups == 1};
  const int kind = places_.seats()[stage.seat].kind;
  const Loads* loads = loads_[kind];
  if (loads == nullptr || stage.after >= most_stages_) return;
  const bool timed = goal_ != Goal::Memory && goal_ != Goal::Fits;
  const int most_first = most_layers_before(std::min(here.reach, most_stages_ - here.stages));
  const int* heads = &space_.heads[static_cast<std::size_t>(place) * (layers_ + 1)];
  const int* known = &space_.heads[static_cast<std::size_t>(advance.place) * (layers_ + 1)];
  // Short stages first: they leave most slack, and what is worse is then soon passed over.
  for (stage.last = 1; stage.last <= layers_; ++stage.last) {
    const int head = heads[stage.last];
    if (head < 0) continue;
    if (stage.after > 0) {
      stage.send = costs_.send(stage.seat, next.seat, advance.same_group, loads->output(stage.last - 1));
      if (timed && stage.send.busy > pace_) continue;
    }
    const int least_first =
        goal_ == Goal::Memory ? least_first_over(stage.last) : least_first_[kind][stage.last];
    for (stage.first = std::min(stage.last - 1, most_first); stage.first >= least_first; --stage.first) {
      const double compute = loads->compute(stage.first, stage.last);
      if (timed && compute > pace_) break;
      if (!may_improve(stage, compute, head, known[stage.first])) continue;
      const StageLoad load = loads->of(stage.first, stage.last);
      if (goal_ == Goal::Memory && costs_.hopeless(stage.seat, stage.after, load, below_)) break;
      if (!consider(stage, load)) continue;
      // insert() touches other cells only.
      for (int i = head; i >= 0; i = labels_[i].next) append(stage, i, advance.place);
    }
  }
}

void Partition::run(Goal goal) {
  goal_ = goal;
  labels_.clear();
  space_.heads.assign(places_.all().size() * (layers_ + 1), -1);
  insert({.layer = layers_});
  for (int place = 0; place < std::ssize(places_.all()); ++place) {
    for (const Advance& advance : places_.all()[place].next) extend(place, advance);
  }
  ends_.clear();
  for (int place = 0; place < std::ssize(places_.all()); ++place) {
    if (exactly_ && places_.all()[place].stages != *exactly_) continue;
    for (int i = space_.heads[static_cast<std::size_t>(place) * (layers_ + 1)]; i >= 0; i = labels_[i].next) {
      ends_.push_back(i);
    }
  }
}

// Plans -------------------------------------------------------------------------------------------

Estimate Partition::estimate(int label) const {
  Plan plan{.schedule = setting_.schedule,
            .replicas = setting_.replicas,
            .microbatch = setting_.microbatch,
            .microbatches = setting_.microbatches};
  for (int i = label; labels_[i].parent >= 0; i = labels_[i].parent) {
    StagePlan stage{.first_layer = labels_[i].layer,
                    .last_layer = labels_[labels_[i].parent].layer,
                    .recompute = labels_[i].recompute};
    places_.seat(labels_[i].place, stage);
    plan.stages.push_back(std::move(stage));
  }
  plan.extra = spec_of(setting_, static_cast<int>(plan.stages.size())).extra;
  return evaluate(problem_, std::move(plan), loads_);
}

// How good the plan of a label seems, without evaluating it: its update, or for P alone its slack.
double Partition::promise(const Label& label) const {
  if (goal_ != Goal::Update) return label.slack;
  const double others = setting_.microbatches - 1;
  switch (setting_.schedule) {
    case Kind::Flush:
      return label.total + others * std::max(least_pace_, pace_ + label.slack);
    case Kind::GPipe:
      return label.total + others * (label.forward + label.backward);
    default:
      return label.total;
  }
}

// Evaluates the most promising of the plans found, and the one with the least besides P.
bool Partition::take_best(std::optional<Estimate>& best, double& below) {
  constexpr std::size_t enough = 2;
  const auto better = [&](int a, int b) { return promise(labels_[a]) < promise(labels_[b]); };
  std::vector<int> chosen = ends_;
  const std::size_t count = std::min(enough, chosen.size());
  std::partial_sort(chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(count), chosen.end(),
                    better);
  chosen.resize(count);
  const auto least = std::min_element(ends_.begin(), ends_.end(),
                                      [&](int a, int b) { return labels_[a].total < labels_[b].total; });
  if (least != ends_.end()) chosen.push_back(*least);
  bool improved = false;
  for (int label : chosen) {
    Estimate found = estimate(label);
    if (found.plan.update_seconds >= below * (1 - kSame)) continue;
    below = found.plan.update_seconds;
    best = std::move(found);
    improved = true;
  }
  return improved;
}

bool Partition::fits() {
  if (!possible()) return false;
  pace_ = kAnyPace;
  run(Goal::Fits);
  return !ends_.empty();
}

std::optional<Estimate> Partition::quick(double below) {
  std::optional<Estimate> best;
  if (!possible() || (below == kUnlimited && !fits())) return best;
  set_limits(below, least_compute_.back());
  floor_ = least_pace_;
  if (setting_.schedule == Kind::Sequential) {
    // Few stages are fast where only one works at a time.
    const int all = most_stages_;
    for (most_stages_ = 1; most_stages_ < all; most_stages_ = std::min(2 * most_stages_, all)) {
      run(Goal::Fits);
      if (!ends_.empty()) break;
    }
    run(Goal::Update);
    most_stages_ = all;
  } else {
    // Limits that grow: the closer they are, the fewer ways there are to follow.
    const double limit = pace_;
    for (double factor : {1.1, 1.4, 2.5, 8.0, kAnyPace}) {
      pace_ = std::min(factor * least_pace_, limit);
      run(Goal::Pace);
      if (!ends_.empty() || pace_ == limit) break;
    }
  }
  double anything = kUnlimited;
  take_best(best, anything);
  return best;
}

std::optional<Estimate> Partition::good(double below) {
  std::optional<Estimate> best = quick(below);
  if (!best || setting_.schedule == Kind::Sequential) return best;
  double update = best->plan.update_seconds;
  for (double low = least_pace_, high = pace_; high > low * 1.02;) {
    pace_ = (low + high) / 2;
    run(Goal::Pace);
    take_best(best, update);
    (ends_.empty() ? low : high) = pace_;
  }
  return best;
}

bool Partition::may_beat(double below) {
  if (!possible()) return false;
  set_limits(below, least_compute_.back());
  if (pace_ < least_pace_) return false;
  run(Goal::Bound);
  return !ends_.empty();
}

// For an update below `below` in which all but P takes at least `besides`.
void Partition::set_limits(double below, double besides) {
  below_ = below * (1 - kSame);
  pace_ = kAnyPace;
  const double others = setting_.microbatches - 1;
  if (below == kUnlimited) return;
  if (setting_.schedule == Kind::TwoBW) pace_ = below_ / setting_.microbatches;
  const bool pipelined = setting_.schedule == Kind::Flush || setting_.schedule == Kind::GPipe;
  if (pipelined && others > 0) pace_ = (below_ - besides) / others;
}

bool Partition::possible() const {
  return most_stages_ >= exactly_.value_or(1) && least_compute_.back() < kUnlimited;
}

double Partition::least_update() const {
  const double m = setting_.microbatches;
  switch (setting_.schedule) {
    case Kind::TwoBW:
      return m * least_pace_;
    case Kind::Flush:
    case Kind::GPipe:
      return least_compute_.back() + (m - 1) * least_pace_;
    default:
      return m * least_compute_.back();
  }
}

double Partition::most_throughput() const {
  if (!possible()) return 0;
  return 1.0 * setting_.microbatches * setting_.microbatch * setting_.replicas / least_update();
}

// Looks for a plan with an update below `target`; one that is found becomes the best.
bool Partition::beat(double target, std::optional<Estimate>& best, double& below) {
  set_limits(target, least_compute_.back());
  if (pace_ < least_pace_) return false;
  run(setting_.schedule == Kind::TwoBW ? Goal::Pace : Goal::Update);
  if (!take_best(best, target)) return false;
  below = target;
  return true;
}

// 2BW: an update is P alone, and a run only tells whether there is a plan below a given P. Halve what is left
// to gain, or ask for anything better, in turns: the one soon gets near the best plan, the other ends with
// it.
void Partition::close_in(std::optional<Estimate>& best, double& below) {
  double least = least_update();
  for (bool halve = true;;) {
    const double target = halve ? (least + below) / 2 : below;
    const bool found = beat(target, best, below);
    if (!found && !halve) return;
    if (!found) least = target;
    halve = found && below > least * (1 + kSame);
  }
}

// Flush: among the plans with P from `least` to `most`. A run finds the least that an update takes besides P;
// that and the best known plan bound P from above, and where they leave much it is looked at in two parts.
void Partition::search_between(double least, double most, std::optional<Estimate>& best, double& below) {
  const double others = setting_.microbatches - 1;
  floor_ = least;
  pace_ = most;
  below_ = below * (1 - kSame);
  run(Goal::Update);
  if (ends_.empty()) return;
  take_best(best, below);
  double besides = kUnlimited;
  for (int end : ends_) besides = std::min(besides, labels_[end].total);
  if (others == 0) return;
  most = std::min(most, (below * (1 - kSame) - besides) / others);
  if (others * (most - least) <= kSame * below) return;
  const double middle = (least + most) / 2;
  search_between(least, middle, best, below);
  most = std::min(most, (below * (1 - kSame) - besides) / others);
  if (most > middle) search_between(middle, most, best, below);
}

std::optional<Estimate> Partition::fastest(double below) {
  std::optional<Estimate> best;
  if (!possible()) return best;
  if (below == kUnlimited) {
    best = quick(below);
    if (!best) return best;
    below = best->plan.update_seconds;
  }
  if (setting_.schedule == Kind::TwoBW) {
    if (beat(below, best, below)) close_in(best, below);
    return best;
  }
  floor_ = least_pace_;
  if (setting_.schedule == Kind::Flush) {
    set_limits(below, least_compute_.back());
    if (pace_ >= least_pace_) search_between(least_pace_, pace_, best, below);
  } else {
    beat(below, best, below);
  }
  return best;
}

Estimate Partition::frugal(const Estimate& best) {
  set_limits(best.plan.update_seconds * (1 + 2 * kSame), least_compute_.back());
  floor_ = least_pace_;
  run(setting_.schedule == Kind::TwoBW ? Goal::Pace : Goal::Update);
  Estimate chosen = best;
  for (int end : ends_) {
    const Estimate found = estimate(end);
    if (found.plan.update_seconds > best.plan.update_seconds * (1 + kSame)) continue;
    if (found.footprint < chosen.footprint * (1 - kSame)) chosen = found;
  }
  return chosen;
}

std::optional<Estimate> Partition::least_over() {
  if (!possible()) return std::nullopt;
  // An even split is soon made, and few are better.
  const Estimate even = even_split();
  below_ = even.over;
  run(Goal::Memory);
  if (ends_.empty()) return even;
  return estimate(*std::min_element(ends_.begin(), ends_.end(),
                                    [&](int a, int b) { return labels_[a].slack < labels_[b].slack; }));
}

// As many parameters on every stage, or nearly, with recomputation where that takes less memory.
Estimate Partition::even_split() {
  labels_.assign(1, {.layer = layers_});
  for (int place = 0, after = 0; after < most_stages_; ++after) {
    const std::vector<Advance>& next = places_.all()[place].next;
    const auto reach = [&](const Advance& advance) { return places_.all()[advance.place].reach; };
    place = std::max_element(next.begin(), next.end(), [&](const Advance& a, const Advance& b) {
              return reach(a) < reach(b);
            })->place;
    const int before = most_stages_ - after - 1;
    const double parameters = least_parameters_.back() * before / most_stages_;
    int first =
        static_cast<int>(std::lower_bound(least_parameters_.begin(), least_parameters_.end(), parameters) -
                         least_parameters_.begin());
    first = before == 0 ? 0 : std::clamp(first, before, labels_.back().layer - 1);
    const int seat = places_.all()[place].seat;
    const StageLoad load = loads_[places_.seats()[seat].kind]->of(first, labels_.back().layer);
    const bool recompute = problem_.recompute.value_or(costs_.over(seat, after, first == 0, load, true) <
                                                       costs_.over(seat, after, first == 0, load, false));
    labels_.push_back({.parent = after, .place = place, .layer = first, .recompute = recompute});
  }
  return estimate(most_stages_);
}

}  // namespace twobw::planner
