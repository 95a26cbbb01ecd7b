#include "planner/partition.h"

#include <algorithm>
#include <vector>

namespace twobw::planner {

using schedule::Kind;

Partition::Partition(const Problem& problem, const Setting& setting, const Places& places,
                     const LoadsByKind& loads, std::optional<int> exactly, Frontier::Workspace& space)
    : setting_(setting),
      bounds_(problem, setting, places, loads, exactly),
      frontier_(problem, setting, places, loads, exactly, bounds_, space) {}

// For an update below so many seconds.
Frontier::Limits Partition::limits_for(double below) const {
  Limits limits{.floor = bounds_.pace(), .below = below * (1 - kSame), .stages = bounds_.stages()};
  if (below == kUnlimited) return limits;
  const double others = setting_.microbatches - 1;
  const bool pipelined = setting_.schedule == Kind::Flush || setting_.schedule == Kind::GPipe;
  if (setting_.schedule == Kind::TwoBW) limits.pace = limits.below / setting_.microbatches;
  if (pipelined && others > 0) limits.pace = (limits.below - bounds_.compute()) / others;
  return limits;
}

bool Partition::found(Goal goal, const Limits& limits) {
  if (!bounds_.possible() || limits.pace < limits.floor) return false;
  frontier_.run(goal, limits);
  return !frontier_.ends().empty();
}

// Evaluates the most promising of the plans found, and the one with the least besides P; where that is not
// known, the one with fewest stages.
bool Partition::take(Best& best) const {
  constexpr std::size_t enough = 2;
  const std::vector<int>& ends = frontier_.ends();
  std::vector<int> chosen = ends;
  const std::size_t count = std::min(enough, chosen.size());
  std::partial_sort(chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(count), chosen.end(),
                    [&](int a, int b) { return frontier_.promise(a) < frontier_.promise(b); });
  chosen.resize(count);
  const auto least = std::min_element(
      ends.begin(), ends.end(), [&](int a, int b) { return frontier_.besides(a) < frontier_.besides(b); });
  if (least != ends.end()) chosen.push_back(*least);
  bool improved = false;
  for (int end : chosen) {
    Estimate plan = frontier_.estimate(end);
    if (plan.plan.update_seconds >= best.below * (1 - kSame)) continue;
    best.below = plan.plan.update_seconds;
    best.plan = std::move(plan);
    improved = true;
  }
  return improved;
}

// Sequential: few stages are fast where only one works at a time.
std::optional<Estimate> Partition::few_stages(double below) {
  Limits limits{.below = below, .stages = 1};
  while (!found(Goal::Fits, limits)) {
    if (limits.stages >= bounds_.stages()) return std::nullopt;
    limits.stages = std::min(2 * limits.stages, bounds_.stages());
  }
  Best best;
  take(best);
  limits.below = std::min(below, best.below);
  if (found(Goal::Update, limits)) take(best);
  return best.plan;
}

std::optional<Estimate> Partition::quick(double below) {
  if (setting_.schedule == Kind::Sequential) return few_stages(below);
  Limits limits = limits_for(below);
  return within_growing(limits);
}

// Limits of P that grow up to those given: the closer they are, the fewer ways there are to follow. They are
// left where a plan was found.
std::optional<Estimate> Partition::within_growing(Limits& limits) {
  if (limits.below == kUnlimited && !found(Goal::Fits, limits)) return std::nullopt;
  const double most = limits.pace;
  Best best;
  for (double factor : {1.1, 1.4, 2.5, 8.0, Frontier::kAnyPace}) {
    limits.pace = std::min(factor * bounds_.pace(), most);
    if (found(Goal::Pace, limits)) {
      take(best);
      break;
    }
    if (limits.pace == most) break;
  }
  return best.plan;
}

std::optional<Estimate> Partition::good(double below) {
  if (setting_.schedule == Kind::Sequential) return few_stages(below);
  Limits limits = limits_for(below);
  Best best{.plan = within_growing(limits)};
  if (!best.plan) return std::nullopt;
  best.below = best.plan->plan.update_seconds;
  for (double low = bounds_.pace(), high = limits.pace; high > low * 1.02;) {
    limits.pace = (low + high) / 2;
    const bool any = found(Goal::Pace, limits);
    if (any) take(best);
    (any ? high : low) = limits.pace;
  }
  return best.plan;
}

bool Partition::may_beat(double below) {
  return found(Goal::Bound, limits_for(below));
}

// Looks for a plan with an update below `target`.
bool Partition::beat(double target, Best& best) {
  const Goal goal = setting_.schedule == Kind::TwoBW ? Goal::Pace : Goal::Update;
  Best better{.below = target};
  if (!found(goal, limits_for(target)) || !take(better)) return false;
  best = std::move(better);
  return true;
}

// 2BW: a run only tells whether there is a plan below a target. Halve what is left to gain, or ask for
// anything better, in turns: the one soon gets near the best plan, the other ends with it.
void Partition::close_in(Best& best) {
  double least = bounds_.update();
  for (bool halve = true;;) {
    const double target = halve ? (least + best.below) / 2 : best.below;
    const bool better = beat(target, best);
    if (!better && !halve) return;
    if (!better) least = target;
    halve = better && best.below > least * (1 + kSame);
  }
}

// Flush: among the plans with P from `least` to `most`. A run finds the least that an update takes besides P;
// that and the best known plan bound P from above, and where they leave much it is looked at in two parts.
void Partition::search_between(double least, double most, Best& best) {
  Limits limits = limits_for(best.below);
  limits.floor = least;
  limits.pace = most;
  if (!found(Goal::Update, limits)) return;
  double besides = kUnlimited;
  for (int end : frontier_.ends()) besides = std::min(besides, frontier_.besides(end));
  take(best);
  const double others = setting_.microbatches - 1;
  if (others == 0) return;
  const auto limit = [&] { return std::min(most, (best.below * (1 - kSame) - besides) / others); };
  const double upper = limit(), middle = (least + upper) / 2;
  if (others * (upper - least) <= kSame * best.below) return;
  search_between(least, middle, best);
  if (limit() > middle) search_between(middle, limit(), best);
}

std::optional<Estimate> Partition::fastest(double below) {
  Best best{.below = below};
  if (below == kUnlimited) {
    best.plan = quick(below);
    if (!best.plan) return std::nullopt;
    best.below = best.plan->plan.update_seconds;
  }
  if (setting_.schedule == Kind::Flush) {
    const Limits limits = limits_for(best.below);
    search_between(limits.floor, limits.pace, best);
  } else if (beat(best.below, best) && setting_.schedule == Kind::TwoBW) {
    close_in(best);
  }
  return best.plan;
}

Estimate Partition::frugal(const Estimate& best) {
  const Goal goal = setting_.schedule == Kind::TwoBW ? Goal::Pace : Goal::Update;
  if (!found(goal, limits_for(best.plan.update_seconds * (1 + 2 * kSame)))) return best;
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
  if (!found(Goal::Memory, {.below = even ? even->over : kUnlimited, .stages = bounds_.stages()}))
    return even;
  const std::vector<int>& ends = frontier_.ends();
  return frontier_.estimate(*std::min_element(
      ends.begin(), ends.end(), [&](int a, int b) { return frontier_.promise(a) < frontier_.promise(b); }));
}

}  // namespace twobw::planner
