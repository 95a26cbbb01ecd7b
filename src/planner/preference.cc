#include "planner/preference.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "planner/bounds.h"
#include "planner/simulation.h"

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

// What sets runs apart; with one stage, all schedules without a delay are the same.
auto run_of(const Plan& plan) {
  const bool alike = plan.stages.size() == 1 && !schedule::is_delayed(plan.schedule);
  std::vector<int> cuts;
  for (const StagePlan& stage : plan.stages) cuts.push_back(stage.last_layer);
  return std::tuple(alike ? schedule::Kind::Sequential : plan.schedule, plan.replicas, plan.microbatch,
                    plan.microbatches, cuts);
}

}  // namespace

std::vector<Plan> contenders(const Problem& problem, const Preferences& preferences,
                             const SearchResult& result, double near, int most) {
  std::vector<Plan> plans = {result.best->plan};
  for (const Family& family : result.families) {
    if (static_cast<int>(plans.size()) == most) break;
    if (family.verdict != Verdict::Slower || family.ratio < 1 - near) continue;
    const Plan& plan = family.best->plan;
    if (std::ranges::any_of(plans, [&](const Plan& other) { return run_of(other) == run_of(plan); }))
      continue;
    const auto cushioned = preferences.cushion ? with_cushion(problem, plan) : std::nullopt;
    plans.push_back(cushioned ? cushioned->plan : plan);
  }
  return plans;
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
