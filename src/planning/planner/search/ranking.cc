#include "planning/planner/search/ranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "planning/planner/costs/simulated_cost.h"
#include "planning/planner/search/bounds.h"
#include "planning/planner/search/local_search.h"

namespace twobw::planner {
namespace {

int devices(const Plan& plan) {
  return plan.shape.replicas * static_cast<int>(plan.stages.size());
}

// The order of search.h, for plans that fit.
bool better(const Estimate& a, const Estimate& b) {
  const double faster = a.plan.sequences_per_s - b.plan.sequences_per_s;
  if (std::abs(faster) > kSame * b.plan.sequences_per_s) return faster > 0;
  const double less = b.footprint - a.footprint;
  if (std::abs(less) > kSame * b.footprint) return less > 0;
  return devices(a.plan) < devices(b.plan);
}

// Candidates that fit first, the best on top; then by their bytes beyond the capacity.
bool before(const Candidate& a, const Candidate& b) {
  if (a.status != b.status) return a.status < b.status;
  if (a.status == Status::Slower) return better(*a.best, *b.best);
  return a.status == Status::Memory && a.best->over < b.best->over;
}

// Work of simulations (local_search.h) that is affordable beside the candidates' best plans, and of climbs.
constexpr double kAffordable = 1.2e5, kClimbs = 1e4;

// Another plan of a candidate that fits.
struct Other {
  Candidate* candidate;
  Estimate* estimate;
};

bool same_plan(const Plan& a, const Plan& b) {
  const auto same_stage = [](const StagePlan& x, const StagePlan& y) {
    return x.last_layer == y.last_layer && x.nodes == y.nodes && x.recompute == y.recompute;
  };
  return a.shape == b.shape && std::ranges::equal(a.stages, b.stages, same_stage);
}

double hoped(const Other& other) {
  return other.estimate->hoped_tokens_per_s();
}

// Each of them once.
std::vector<Other> others_of(std::vector<Candidate>& candidates) {
  std::vector<Other> others;
  for (Candidate& candidate : candidates) {
    if (candidate.status != Status::Slower) continue;
    const auto first = others.size();
    for (Estimate& estimate : candidate.others) {
      const auto same = [&](const Other& other) { return same_plan(other.estimate->plan, estimate.plan); };
      if (same_plan(candidate.best->plan, estimate.plan)) continue;
      if (std::any_of(others.begin() + first, others.end(), same)) continue;
      others.push_back({&candidate, &estimate});
    }
  }
  return others;
}

// Simulates other plans of the candidates, while a formula puts one above the best simulated plan:
// alternately the formulas with all and with the least contention, since either may be wrong.
void simulate_others(const Problem& problem, int count, double& work, std::vector<Candidate>& candidates) {
  std::vector<Other> by_all = others_of(candidates), by_least = by_all;
  const auto rate = [](const Other& other) { return other.estimate->plan.tokens_per_s; };
  std::ranges::stable_sort(by_all, std::greater(), rate);
  std::ranges::stable_sort(by_least, std::greater(), hoped);
  double best = candidates.front().best->plan.simulated_tokens_per_s;
  const auto simulate = [&](const Other& other) {
    Plan& plan = other.estimate->plan;
    if (plan.simulated_tokens_per_s > 0) return;  // by the other formula
    const double simulated = plan.simulated_tokens_per_s = simulated_tokens_per_s(problem, plan);
    // The best plan of a candidate that was not simulated is far behind.
    const double known = other.candidate->best->plan.simulated_tokens_per_s;
    if (simulated > (known > 0 ? known : best) * (1 + kSame))
      std::swap(*other.estimate, *other.candidate->best);
    best = std::max(best, simulated);
    work += work_of(plan);
    --count;
  };
  for (std::size_t i = 0; i < by_all.size() && count > 0 && work < kAffordable; ++i) {
    const bool all = rate(by_all[i]) > best * (1 + kSame), least = hoped(by_least[i]) > best * (1 + kSame);
    if (all) simulate(by_all[i]);
    if (least) simulate(by_least[i]);
    if (!all && !least) break;
  }
}

// Local search from the best plan of every candidate near the best, then from other plans, the most promising
// first.
void polish_best(const Problem& problem, double& work, std::vector<Candidate>& candidates) {
  constexpr double near = 0.8;
  double best = candidates.front().best->plan.simulated_tokens_per_s;
  const auto polish = [&](Estimate& start) {
    double& rate = start.plan.simulated_tokens_per_s;
    if (rate >= near * best) local_search(problem, start, work);
    best = std::max(best, rate);
  };
  for (Candidate& candidate : candidates) {
    if (candidate.status == Status::Slower) polish(*candidate.best);
  }
  std::vector<Other> others = others_of(candidates);
  std::ranges::stable_sort(others, std::greater(), hoped);
  for (const Other& other : others) {
    Estimate start = *other.estimate;
    if (start.plan.simulated_tokens_per_s == 0) {
      work -= work_of(start.plan);
      if (work <= 0) return;
      start.plan.simulated_tokens_per_s = simulated_tokens_per_s(problem, start.plan);
    }
    polish(start);
    Estimate& known = *other.candidate->best;
    if (start.plan.simulated_tokens_per_s > known.plan.simulated_tokens_per_s * (1 + kSame))
      std::swap(start, known);
  }
}

// The candidates that fit, the fastest first; candidates without a simulation keep their order, behind.
void sort_by_simulation(std::vector<Candidate>& candidates) {
  const auto last = std::ranges::find_if(
      candidates, [](const Candidate& candidate) { return candidate.status != Status::Slower; });
  const auto speed = [](const Candidate& candidate) { return candidate.best->plan.simulated_tokens_per_s; };
  std::stable_sort(candidates.begin(), last,
                   [&](const Candidate& a, const Candidate& b) { return speed(a) > speed(b) * (1 + kSame); });
}

// Ranks the best candidates by simulation, without the ones far behind, unless the time model puts them above
// the best simulated one.
double simulate_best(const Problem& problem, int count, std::vector<Candidate>& candidates) {
  constexpr double near = 0.8;
  double work = 0, best = 0;
  const double enough = near * candidates.front().best->plan.tokens_per_s;
  for (auto it = candidates.begin(); it != candidates.end() && it->status == Status::Slower; ++it) {
    Plan& plan = it->best->plan;
    const bool among_best = it - candidates.begin() < count && plan.tokens_per_s >= enough;
    if (!among_best && (plan.tokens_per_s <= best * (1 + kSame) || work >= kAffordable)) break;
    plan.simulated_tokens_per_s = simulated_tokens_per_s(problem, plan);
    best = std::max(best, plan.simulated_tokens_per_s);
    work += work_of(plan);
  }
  sort_by_simulation(candidates);
  simulate_others(problem, 4 * count, work, candidates);
  sort_by_simulation(candidates);
  double left = kClimbs;
  polish_best(problem, left, candidates);
  sort_by_simulation(candidates);
  return work + kClimbs - left;
}

}  // namespace

bool rank(const Problem& problem, const SearchOptions& options, SearchResult& result) {
  std::vector<Candidate>& candidates = result.candidates;
  std::stable_sort(candidates.begin(), candidates.end(), before);
  if (candidates.empty() || candidates.front().status != Status::Slower) return false;
  if (options.simulate > 0)
    result.work += static_cast<std::int64_t>(simulate_best(problem, options.simulate, candidates));
  return true;
}

void conclude(SearchResult& result) {
  std::vector<Candidate>& candidates = result.candidates;
  sort_by_simulation(candidates);
  result.best = candidates.front().best;
  for (Candidate& candidate : candidates) {
    if (candidate.status != Status::Slower) continue;
    candidate.ratio =
        candidate.best->plan.best_known_tokens_per_s() / result.best->plan.best_known_tokens_per_s();
    candidate.reason = fmt::format("{:.1f}% less throughput", 100 * (1 - candidate.ratio));
  }
  candidates.front().status = Status::Best;
  candidates.front().reason.clear();
}

}  // namespace twobw::planner
