#include "planning/planner/search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "planning/planner/search/infeasibility.h"
#include "planning/planner/search/proposals.h"
#include "planning/planner/search/ranking.h"
#include "planning/planner/search/space.h"

namespace twobw::planner {
namespace {

// The time model may misjudge a plan, and with it the other numbers of stages of its candidate. Looks again
// with each number, the most similar to the best plans first, for one that the simulator finds faster.
void try_stage_counts(const Problem& problem, const SearchOptions& options, SearchResult& result) {
  constexpr double kWorthIt = 0.005, kNear = 0.05;
  // Work of the whole search, and of this where the rest took more already; a try takes some even if it
  // finds nothing to work out.
  constexpr std::int64_t kInAll = 1'200'000, kLeast = 60'000, kTry = 1'000;
  struct Try {
    Candidate* candidate;
    int stages, distance;
  };
  std::vector<Try> tries;
  int place = 0;
  for (Candidate& candidate : result.candidates) {
    if (candidate.status != Status::Slower) continue;
    const int here = static_cast<int>(candidate.best->plan.stages.size());
    const int most = std::min(problem.cluster.device_count() / candidate.replicas,
                              static_cast<int>(problem.layers.size()));
    for (int stages = 1; stages <= most; ++stages)
      tries.push_back({&candidate, stages, place + std::abs(stages - here)});
    ++place;
  }
  std::ranges::stable_sort(tries, {}, &Try::distance);

  const Plan& first = result.candidates.front().best->plan;
  const double context = first.tokens_per_s / first.sequences_per_s;
  double best = first.simulated_tokens_per_s;
  SearchOptions faster = options;
  faster.near = std::max(options.near, kNear);
  const std::int64_t enough = std::max(result.work + kLeast, kInAll);
  Problem fixed = problem;
  for (const auto& [candidate, stages, distance] : tries) {
    if (result.work > enough) return;
    fixed.fixed.schedule = candidate->schedule;
    fixed.fixed.replicas = candidate->replicas;
    fixed.fixed.stages = stages;
    faster.beat = best * (1 + kWorthIt) / context;
    SearchResult found = propose(fixed, faster);
    const bool fits = rank(fixed, faster, found);
    result.work += kTry + found.work;
    if (!fits) continue;
    Estimate& fastest = *found.candidates.front().best;
    if (fastest.plan.simulated_tokens_per_s <= best) continue;
    best = fastest.plan.simulated_tokens_per_s;
    candidate->best = std::move(fastest);
  }
}

}  // namespace

std::string name(const Candidate& candidate) {
  return fmt::format("{}, {} replica{}", schedule::name(candidate.schedule), candidate.replicas,
                     candidate.replicas == 1 ? "" : "s");
}

SearchResult rank_candidates(const Problem& problem, const SearchOptions& options) {
  validate(problem);
  SearchResult result = propose(problem, options);
  if (!rank(problem, options, result)) return result;
  if (options.simulate > 0 && !problem.fixed.stages) try_stage_counts(problem, options, result);
  conclude(result);
  return result;
}

SearchResult search(const Problem& problem, const SearchOptions& options) {
  SearchResult result = rank_candidates(problem, options);
  if (result.best) return result;
  if (result.candidates.empty()) fail_input("no plan satisfies the fixed settings: no schedule left to try");
  if (result.candidates.front().status != Status::Memory)
    fail_input("no plan satisfies the fixed settings: {}", result.candidates.front().reason);
  Infeasibility infeasibility{.closest = *result.candidates.front().best};
  if (options.suggestions) infeasibility.suggestions = suggestions(problem, infeasibility.closest);
  result.infeasibility = std::move(infeasibility);
  return result;
}

}  // namespace twobw::planner
