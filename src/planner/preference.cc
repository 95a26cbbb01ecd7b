#include "planner/preference.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "planner/bounds.h"
#include "planner/simulation.h"
#include "planner/space.h"

namespace twobw::planner {
namespace {

bool is_delayed(const Family& family) {
  return schedule::is_delayed(family.schedule);
}

// The less, the rather taken among plans that are as good as equally fast.
auto burden(const Plan& plan, double rate) {
  return std::tuple(schedule::is_delayed(plan.schedule), plan.stages.size(), -rate);
}

bool simpler(const Family& a, const Family& b) {
  return burden(a.best->plan, a.ratio) < burden(b.best->plan, b.ratio);
}

std::string why_passed_over(const Family& family, const Family& chosen) {
  if (family.ratio <= 1 + kSame)
    return fmt::format("{:.1f}% less throughput", 100 * std::max(0.0, 1 - family.ratio));
  const double gain = 100 * (family.ratio - 1);
  return is_delayed(family) != is_delayed(chosen)
             ? fmt::format("{:.1f}% more throughput, but with delayed updates", gain)
             : fmt::format("{:.1f}% more throughput, but with more stages", gain);
}

void prefer_simple(double tolerance, std::vector<Family>& families) {
  const auto end = std::ranges::find_if(families, [](const Family& family) {
    return family.verdict != Verdict::Best && family.verdict != Verdict::Slower;
  });
  auto chosen = families.begin();
  for (auto family = families.begin(); family != end; ++family) {
    if (family->ratio >= 1 - tolerance && simpler(*family, *chosen)) chosen = family;
  }
  if (chosen == families.begin()) return;
  families.front().verdict = Verdict::Slower;
  chosen->verdict = Verdict::Best;
  std::rotate(families.begin(), chosen, chosen + 1);
  const double base = families.front().ratio;
  for (auto family = families.begin(); family != end; ++family) {
    family->ratio /= base;
    family->reason = family->verdict == Verdict::Best ? "" : why_passed_over(*family, families.front());
  }
}

// The same plan with one more microbatch in flight for every boundary, if it may and fits.
std::optional<Estimate> with_cushion(const Problem& problem, const Plan& plan) {
  const int cushion = static_cast<int>(plan.stages.size()) - 1;
  const bool has_extra = plan.schedule == schedule::Kind::TwoBW || plan.schedule == schedule::Kind::Flush;
  if (problem.extra || !has_extra || plan.extra >= cushion) return std::nullopt;
  Plan more = plan;
  more.extra = cushion;
  const schedule::Spec spec = spec_of(setting_of(more), cushion + 1);
  if (more.microbatches < schedule::smallest_microbatches(spec)) return std::nullopt;
  Estimate estimate = evaluate(problem, more);
  if (!estimate.fits() || estimate.plan.sequences_per_s < plan.sequences_per_s) return std::nullopt;
  if (plan.simulated_tokens_per_s > 0)
    estimate.plan.simulated_tokens_per_s = simulated_tokens_per_s(problem, estimate.plan);
  return estimate;
}

// With one stage, all schedules without a delay are the same.
schedule::Kind schedule_in_effect(const Plan& plan) {
  const bool alike = plan.stages.size() == 1 && !schedule::is_delayed(plan.schedule);
  return alike ? schedule::Kind::Sequential : plan.schedule;
}

// What sets runs apart.
auto run_of(const Plan& plan) {
  std::vector<int> cuts;
  for (const StagePlan& stage : plan.stages) cuts.push_back(stage.last_layer);
  return std::tuple(schedule_in_effect(plan), plan.replicas, plan.microbatch, plan.microbatches, cuts);
}

void add_unless_there(std::vector<Plan>& plans, const Plan& plan) {
  const auto same = [&](const Plan& other) { return run_of(other) == run_of(plan); };
  if (std::ranges::none_of(plans, same)) plans.push_back(plan);
}

// Every schedule and number of replicas: its best plan for every size of a microbatch, those that make so
// many tokens a second at least, the fastest first.
std::vector<std::vector<Plan>> best_by_size(const Problem& problem, const Preferences& preferences,
                                            double near, double enough) {
  std::map<std::pair<schedule::Kind, int>, std::vector<Plan>> families;
  for (const int size : microbatches_to_try(problem)) {
    if (microbatch_count(problem, problem.replicas.value_or(1), size) == 0) continue;
    Problem fixed = problem;
    fixed.microbatch = size;
    for (const Family& family : search(fixed, {.simulate = 0, .near = near, .remedies = false}).families) {
      if (family.verdict != Verdict::Best && family.verdict != Verdict::Slower) continue;
      const Plan& plan = family.best->plan;
      if (plan.tokens_per_s < enough) continue;
      const auto cushioned = preferences.cushion ? with_cushion(problem, plan) : std::nullopt;
      add_unless_there(families[{schedule_in_effect(plan), plan.replicas}],
                       cushioned ? cushioned->plan : plan);
    }
  }
  std::vector<std::vector<Plan>> result;
  for (auto& [family, plans] : families) {
    std::ranges::stable_sort(plans, std::greater(), &Plan::tokens_per_s);
    result.push_back(std::move(plans));
  }
  return result;
}

}  // namespace

std::vector<Plan> contenders(const Problem& problem, const Preferences& preferences,
                             const SearchResult& result, double near, int most) {
  const double enough = (1 - near) * result.best->plan.tokens_per_s;
  const auto families = best_by_size(problem, preferences, near, enough);
  std::vector<Plan> taken = {result.best->plan};
  for (std::size_t rank = 0; std::ssize(taken) < most; ++rank) {
    std::vector<Plan> next;
    for (const std::vector<Plan>& plans : families) {
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
  if (share <= 0 || !schedule::is_delayed(plan.schedule)) return rate;
  Plan start = plan;
  start.schedule = schedule::Kind::Flush;
  const double slower = evaluate(problem, start).plan.tokens_per_s / plan.tokens_per_s;
  return rate / (1 - share + share / slower);
}

SearchResult search_with(const Problem& problem, const Preferences& preferences, SearchOptions options) {
  options.near = std::max(options.near, preferences.tolerance);
  SearchResult result = search(problem, options);
  prefer(problem, preferences, result);
  return result;
}

void prefer(const Problem& problem, const Preferences& preferences, SearchResult& result) {
  if (!result.best) return;
  prefer_simple(preferences.tolerance, result.families);
  Estimate& chosen = *result.families.front().best;
  if (preferences.cushion) {
    if (auto cushioned = with_cushion(problem, chosen.plan)) chosen = std::move(*cushioned);
  }
  result.best = chosen;
}

}  // namespace twobw::planner
