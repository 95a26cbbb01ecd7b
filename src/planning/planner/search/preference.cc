#include "planning/planner/search/preference.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "planning/planner/costs/simulated_cost.h"
#include "planning/planner/search/bounds.h"
#include "planning/planner/search/space.h"

namespace twobw::planner {
namespace {

bool is_delayed(const Candidate& candidate) {
  return schedule::is_delayed(candidate.schedule);
}

// Sort key among plans of nearly the same speed: the lowest is preferred.
auto burden(const Plan& plan, double rate) {
  return std::tuple(schedule::is_delayed(plan.shape.schedule), plan.stages.size(), -rate);
}

bool simpler(const Candidate& a, const Candidate& b) {
  return burden(a.best->plan, a.ratio) < burden(b.best->plan, b.ratio);
}

std::string why_passed_over(const Candidate& candidate, const Candidate& chosen) {
  if (candidate.ratio <= 1 + kSame)
    return fmt::format("{:.1f}% less throughput", 100 * std::max(0.0, 1 - candidate.ratio));
  const double gain = 100 * (candidate.ratio - 1);
  return is_delayed(candidate) != is_delayed(chosen)
             ? fmt::format("{:.1f}% more throughput, but with delayed updates", gain)
             : fmt::format("{:.1f}% more throughput, but with more stages", gain);
}

void prefer_simple(double tolerance, std::vector<Candidate>& candidates) {
  const auto end = std::ranges::find_if(candidates, [](const Candidate& candidate) {
    return candidate.status != Status::Best && candidate.status != Status::Slower;
  });
  auto chosen = candidates.begin();
  for (auto candidate = candidates.begin(); candidate != end; ++candidate) {
    if (candidate->ratio >= 1 - tolerance && simpler(*candidate, *chosen)) chosen = candidate;
  }
  if (chosen == candidates.begin()) return;
  candidates.front().status = Status::Slower;
  chosen->status = Status::Best;
  std::rotate(candidates.begin(), chosen, chosen + 1);
  const double base = candidates.front().ratio;
  for (auto candidate = candidates.begin(); candidate != end; ++candidate) {
    candidate->ratio /= base;
    candidate->reason =
        candidate->status == Status::Best ? "" : why_passed_over(*candidate, candidates.front());
  }
}

// The plan with one more microbatch in flight for every boundary, if that is allowed and fits.
std::optional<Estimate> with_cushion(const Problem& problem, const Plan& plan) {
  const int cushion = static_cast<int>(plan.stages.size()) - 1;
  const bool has_extra =
      plan.shape.schedule == schedule::Kind::TwoBW || plan.shape.schedule == schedule::Kind::Flush;
  if (problem.fixed.extra || !has_extra || plan.shape.extra >= cushion) return std::nullopt;
  Plan more = plan;
  more.shape.extra = cushion;
  if (more.shape.microbatches < schedule::smallest_microbatches({.shape = more.shape})) return std::nullopt;
  if (schedule::predicts_well({.shape = plan.shape}) && !schedule::predicts_well({.shape = more.shape}))
    return std::nullopt;
  Estimate estimate = evaluate(problem, more);
  if (!estimate.fits() || estimate.plan.sequences_per_s < plan.sequences_per_s) return std::nullopt;
  if (plan.simulated_tokens_per_s > 0)
    estimate.plan.simulated_tokens_per_s = simulated_tokens_per_s(problem, estimate.plan);
  return estimate;
}

// With one stage, all schedules without a delay are the same.
schedule::Kind schedule_in_effect(const Plan& plan) {
  const bool alike = plan.stages.size() == 1 && !schedule::is_delayed(plan.shape.schedule);
  return alike ? schedule::Kind::Sequential : plan.shape.schedule;
}

// Key of a run: plans with the same key are the same run.
auto run_of(const Plan& plan) {
  std::vector<int> cuts;
  for (const StagePlan& stage : plan.stages) cuts.push_back(stage.last_layer);
  return std::tuple(schedule_in_effect(plan), plan.shape.replicas, plan.shape.microbatch,
                    plan.shape.microbatches, cuts);
}

void add_unless_there(std::vector<Plan>& plans, const Plan& plan) {
  const auto same = [&](const Plan& other) { return run_of(other) == run_of(plan); };
  if (std::ranges::none_of(plans, same)) plans.push_back(plan);
}

// For every schedule and number of replicas: its best plan for every microbatch size, if it reaches `enough`
// tokens a second, the fastest first.
std::vector<std::vector<Plan>> best_by_size(const Problem& problem, const Preferences& preferences,
                                            double near, double enough) {
  std::map<std::pair<schedule::Kind, int>, std::vector<Plan>> candidates;
  for (const int size : microbatches_to_try(problem)) {
    if (microbatch_count(problem, problem.fixed.replicas.value_or(1), size) == 0) continue;
    Problem fixed = problem;
    fixed.fixed.microbatch = size;
    for (const Candidate& candidate :
         search(fixed, {.simulate = 0, .near = near, .suggestions = false}).candidates) {
      if (candidate.status != Status::Best && candidate.status != Status::Slower) continue;
      const Plan& plan = candidate.best->plan;
      if (plan.tokens_per_s < enough) continue;
      const auto cushioned = preferences.cushion ? with_cushion(problem, plan) : std::nullopt;
      add_unless_there(candidates[{schedule_in_effect(plan), plan.shape.replicas}],
                       cushioned ? cushioned->plan : plan);
    }
  }
  std::vector<std::vector<Plan>> result;
  for (auto& [candidate, plans] : candidates) {
    std::ranges::stable_sort(plans, std::greater(), &Plan::tokens_per_s);
    result.push_back(std::move(plans));
  }
  return result;
}

}  // namespace

std::vector<Plan> contenders(const Problem& problem, const Preferences& preferences,
                             const SearchResult& result, double near, int most) {
  const double enough = (1 - near) * result.best->plan.tokens_per_s;
  Problem alike = problem;
  alike.predict_well = schedule::predicts_well({.shape = result.best->plan.shape});
  const auto candidates = best_by_size(alike, preferences, near, enough);
  std::vector<Plan> taken = {result.best->plan};
  for (std::size_t rank = 0; std::ssize(taken) < most; ++rank) {
    std::vector<Plan> next;
    for (const std::vector<Plan>& plans : candidates) {
      if (rank < plans.size()) next.push_back(plans[rank]);
    }
    if (next.empty()) break;
    std::ranges::stable_sort(next, std::greater(), &Plan::tokens_per_s);
    for (const Plan& plan : next) {
      if (std::ssize(taken) < most) add_unless_there(taken, plan);
    }
  }
  return taken;
}

std::size_t prefer_by_rates(const Preferences& preferences, const std::vector<Plan>& plans,
                            const std::vector<double>& rates) {
  const double enough = (1 - preferences.tolerance) * std::ranges::max(rates);
  auto chosen = static_cast<std::size_t>(std::ranges::max_element(rates) - rates.begin());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (rates[i] >= enough && burden(plans[i], rates[i]) < burden(plans[chosen], rates[chosen])) chosen = i;
  }
  return chosen;
}

double with_synchronous_start(const Problem& problem, const Plan& plan, double rate, double share) {
  if (share <= 0 || !schedule::is_delayed(plan.shape.schedule)) return rate;
  Plan start = plan;
  start.shape.schedule = schedule::Kind::Flush;
  const double slower = evaluate(problem, start).plan.tokens_per_s / plan.tokens_per_s;
  return rate / (1 - share + share / slower);
}

namespace {

// The better of two searches, one of them without plans that predict from little.
SearchResult search_to_predict_well(const Problem& problem, const Preferences& preferences,
                                    const SearchOptions& options) {
  SearchResult fastest = search(problem, options);
  if (!fastest.best || schedule::predicts_well({.shape = fastest.best->plan.shape})) return fastest;
  Problem careful = problem;
  careful.predict_well = true;
  SearchResult result = rank_candidates(careful, options);
  const double given_up = std::min(preferences.predict_well, 10 * preferences.tolerance);
  const double enough = (1 - given_up) * fastest.best->plan.best_known_tokens_per_s();
  return result.best && result.best->plan.best_known_tokens_per_s() >= enough ? result : fastest;
}

}  // namespace

SearchResult search_with(const Problem& problem, const Preferences& preferences, SearchOptions options) {
  options.near = std::max(options.near, preferences.tolerance);
  SearchResult result = search_to_predict_well(problem, preferences, options);
  prefer(problem, preferences, result);
  return result;
}

void prefer(const Problem& problem, const Preferences& preferences, SearchResult& result) {
  if (!result.best) return;
  prefer_simple(preferences.tolerance, result.candidates);
  Estimate& chosen = *result.candidates.front().best;
  if (preferences.cushion) {
    if (auto cushioned = with_cushion(problem, chosen.plan)) chosen = std::move(*cushioned);
  }
  result.best = chosen;
}

}  // namespace twobw::planner
