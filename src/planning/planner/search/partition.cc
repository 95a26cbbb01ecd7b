#include "planning/planner/search/partition.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "planning/planner/costs/time_model.h"

namespace twobw::planner {

using schedule::Kind;

namespace {

// Bounds are loose for plans that wait for shared links: limit of the work spent on them.
constexpr std::int64_t kMuch = 100'000;

}  // namespace

Partition::Partition(const Problem& problem, const Setting& setting, const Places& places,
                     const LayerSumsByKind& sums, std::optional<int> exactly, Frontier::Workspace& space)
    : setting_(setting),
      held_up_(stages_wait_for_links(problem)),
      bounds_(problem, setting, places, sums, exactly),
      frontier_(problem, setting, places, sums, exactly, bounds_, space) {}

// Without a stall an update is m times the pace.
Frontier::Goal Partition::goal() const {
  return setting_.shape.schedule == Kind::TwoBW && !stalls(setting_) ? Goal::Pace : Goal::Update;
}

// Limits for an update below `below` seconds.
Frontier::Limits Partition::limits_for(double below) const {
  Limits limits{.below = below * (1 - kSame), .floor = bounds_.pace(), .stages = bounds_.stages()};
  if (below == kUnlimited) return limits;
  const double others = setting_.shape.microbatches - 1;
  const bool fills = stalls(setting_) || setting_.shape.schedule == Kind::GPipe;
  if (setting_.shape.schedule == Kind::TwoBW) limits.pace = limits.below / setting_.shape.microbatches;
  if (fills && others > 0) limits.pace = std::min(limits.pace, (limits.below - bounds_.way()) / others);
  return limits;
}

bool Partition::found(Goal goal, const Limits& limits) {
  if (!bounds_.possible() || limits.pace < limits.floor) return false;
  frontier_.run(goal, limits);
  return !frontier_.ends().empty();
}

// Evaluates the best of the plans found, the one with the least total without P, and the best ones by
// formulas with less contention, because the runs themselves ignore it. The most promising comes first: a
// plan is not evaluated if its lower bound exceeds the time of another.
Partition::Answer Partition::take(Best& best, double target) {
  constexpr std::size_t enough = 2;
  struct End {
    int end;
    double seconds;
    bool favoured = false;
  };
  const std::vector<int>& ends = frontier_.ends();
  std::vector<End> chosen;
  for (int end : ends) {
    const double promise = frontier_.promise(end);
    if (promise < std::min(target, best.below) * (1 - kSame)) chosen.push_back({end, promise});
  }
  const bool promising = !chosen.empty();
  std::ranges::stable_sort(chosen, {}, &End::seconds);
  std::vector<End> favoured;
  if (held_up_ && promising) favoured = {chosen.front(), {.end = -1, .seconds = kUnlimited}};
  double least = kUnlimited;
  for (End& end : chosen) {
    if (end.seconds >= least) break;
    const Frontier::Seconds seconds = frontier_.seconds(end.end);
    const double hoped = std::max(end.seconds, seconds.hoped);
    if (held_up_ && hoped < favoured.back().seconds) favoured.back() = {end.end, hoped};
    if (seconds.all > seconds.none * (1 + kSame)) missed_ = std::min(missed_, end.seconds);
    end.seconds = std::max(end.seconds, seconds.all);
    least = std::min(least, end.seconds);
  }
  std::ranges::stable_sort(chosen, {}, &End::seconds);
  chosen.resize(std::min(enough, chosen.size()));
  const auto short_end =
      std::ranges::min_element(ends, {}, [&](int end) { return frontier_.fixed_seconds(end); });
  if (short_end != ends.end()) chosen.push_back({*short_end, frontier_.promise(*short_end)});
  for (std::size_t i = 0; i < favoured.size(); ++i) {
    const double below = std::min(favourites_[i], favoured_below_);
    if (favoured[i].seconds >= below * (1 - kSame)) continue;
    favourites_[i] = favoured[i].seconds;
    favoured[i].favoured = true;
    std::erase_if(chosen, [&](const End& end) { return end.end == favoured[i].end; });
    chosen.push_back(favoured[i]);
  }
  bool improved = false;
  for (const End& end : chosen) {
    if (!end.favoured && end.seconds >= best.below * (1 - kSame)) continue;
    Estimate plan = frontier_.estimate(end.end);
    if (held_up_ && plan.hoped_seconds < favoured_below_) near_best_.push_back(plan);
    if (plan.plan.update_seconds >= best.below * (1 - kSame)) continue;
    best.below = plan.plan.update_seconds;
    best.plan = std::move(plan);
    improved = true;
  }
  if (improved && best.below < target) return Answer::Better;
  return promising ? Answer::Held : Answer::None;
}

// Finds plans of at most `stages` stages with growing limits of P, because a tight limit leaves few labels;
// then bisects P to within 5% of the least.
void Partition::look(int stages, double below, Best& best) {
  Limits limits = limits_for(std::min(below, best.below));
  const double most = limits.pace;
  limits.stages = stages;
  limits.floor = bounds_.pace(stages);
  bool any = false;
  for (double factor : {1.1, 1.4, 2.5, 8.0, Frontier::kAnyPace}) {
    limits.pace = std::min(factor * limits.floor, most);
    any = found(Goal::Pace, limits);
    if (any || limits.pace == most) break;
  }
  if (any) take(best);
  for (double low = limits.floor, high = limits.pace; any && high > low * 1.05;) {
    limits.pace = (low + high) / 2;
    const bool better = found(Goal::Pace, limits);
    if (better) take(best);
    (better ? high : low) = limits.pace;
  }
}

std::optional<Estimate> Partition::solve_approximately(double below) {
  if (!found(Goal::Fits, {.stages = bounds_.stages()})) return std::nullopt;
  const int fewest = frontier_.stages(frontier_.ends().front());
  Best best;
  if (setting_.shape.schedule == Kind::Sequential) {
    // Few stages are fast where only one works at a time.
    if (found(Goal::Span, {.stages = std::min(fewest + fewest / 4 + 1, bounds_.stages())})) take(best);
    return best.plan;
  }
  // Twice the stages that an even split could use are nearly always enough.
  const int most = std::clamp(2 * bounds_.useful_stages(), fewest, bounds_.stages());
  look(most, below, best);
  if (!best.plan && most < bounds_.stages()) look(bounds_.stages(), below, best);
  // Fewer have a larger P, but all else that an update takes is less.
  for (int stages = most / 2; best.plan && stages >= fewest; stages /= 2) {
    if (bounds_.update(stages) >= std::min(below, best.below)) break;
    look(stages, below, best);
  }
  return best.plan;
}

bool Partition::may_beat(double below) {
  return found(Goal::Bound, limits_for(below));
}

// Looks for a plan with an update below `target`. Held: contention keeps the plans found above it, but one
// may be better than the best known.
Partition::Answer Partition::beat(double target, Best& best) {
  if (!found(goal(), limits_for(target))) return Answer::None;
  return take(best, target) == Answer::Better ? Answer::Better : Answer::Held;
}

// 2BW: a run answers only whether there is a plan below a target. It alternately halves the interval and asks
// for anything better: the first soon approaches the best plan, the second ends there.
//
// If contention delays all plans of a run, others with a lower P may still be better, down to the least P. A
// few runs find those.
void Partition::close_in(Best& best) {
  constexpr double close = 0.03;
  double least = bounds_.update(), held = kUnlimited;
  for (bool halve = true;;) {
    const double high = std::min(best.below, held);
    const double target = halve ? (least + high) / 2 : high;
    const Answer answer = beat(target, best);
    if (answer == Answer::Held) {
      held = target;
      if (held <= least * (1 + close)) return;
      halve = true;
      continue;
    }
    const bool better = answer == Answer::Better;
    if (!better && !halve) return;
    if (!better) least = target;
    if (held < kUnlimited && held <= least * (1 + close)) return;
    halve = better && best.below > least * (1 + kSame);
  }
}

// Schedules that stall: plans with P from `least` to `most`. A run finds the least total of an update without
// P. That and the best known plan bound P from above; a large interval is split in two.
void Partition::search_between(double least, double most, Best& best) {
  Limits limits = limits_for(best.below);
  limits.floor = least;
  limits.pace = std::min(limits.pace, most);
  if (!found(Goal::Update, limits)) return;
  double total = kUnlimited;
  for (int end : frontier_.ends()) total = std::min(total, frontier_.fixed_seconds(end));
  const Answer answer = take(best);
  const bool better = answer == Answer::Better;
  const double others = setting_.shape.microbatches - 1;
  if (held_up_ && answer == Answer::Held) {
    // Contention delays other plans with the same bound as well.
    if (missed_ < best.below) return;
    if (effort() > kMuch) {
      missed_ = std::min(missed_, total + others * least);
      return;
    }
  }
  const auto limit = [&] {
    const double pace = std::min(most, limits_for(best.below).pace);
    return others > 0 ? std::min(pace, (best.below * (1 - kSame) - total) / others) : pace;
  };
  const double upper = limit(), middle = (least + upper) / 2;
  if (others * (upper - least) <= kSame * best.below) {
    // With one gradient buffer a stage's own step may take longer than all this: until nothing is better.
    if (better && setting_.one_gradient()) search_between(least, upper, best);
    return;
  }
  search_between(least, middle, best);
  if (limit() > middle) search_between(middle, limit(), best);
}

std::optional<Estimate> Partition::solve_exactly(double below) {
  Best best{.below = below};
  if (below == kUnlimited) {
    best.plan = solve_approximately(below);
    if (!best.plan) return std::nullopt;
    best.below = best.plan->plan.update_seconds;
  }
  if (stalls(setting_)) {
    const Limits limits = limits_for(best.below);
    search_between(limits.floor, limits.pace, best);
  } else if (beat(best.below, best) != Answer::None && setting_.shape.schedule == Kind::TwoBW) {
    close_in(best);
  }
  return best.plan;
}

Estimate Partition::least_memory_tie(const Estimate& best) {
  if (!found(goal(), limits_for(best.plan.update_seconds * (1 + 2 * kSame)))) return best;
  Estimate chosen = best;
  for (int end : frontier_.ends()) {
    Estimate plan = frontier_.estimate(end);
    if (plan.plan.update_seconds > best.plan.update_seconds * (1 + kSame)) continue;
    if (plan.footprint < chosen.footprint * (1 - kSame)) chosen = std::move(plan);
  }
  return chosen;
}

std::optional<Estimate> Partition::least_over() {
  if (!bounds_.possible()) return std::nullopt;
  // An even split is soon made, and few are better.
  std::optional<Estimate> even = frontier_.even_split();
  Limits limits{
      .below = even ? even->over : kUnlimited, .floor = frontier_.least_over(), .stages = bounds_.stages()};
  const double most = limits.below;
  // A run finds the least of all below its limit. The closer that is, the fewer ways there are to follow.
  while (most - limits.floor > most / 16) {
    limits.below = (limits.floor + most) / 2;
    if (found(Goal::Memory, limits)) break;
    limits.floor = limits.below;
    limits.below = most;
  }
  if (limits.below == most && !found(Goal::Memory, limits)) return even;
  const std::vector<int>& ends = frontier_.ends();
  return frontier_.estimate(*std::min_element(
      ends.begin(), ends.end(), [&](int a, int b) { return frontier_.promise(a) < frontier_.promise(b); }));
}

}  // namespace twobw::planner
