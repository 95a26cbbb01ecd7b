#include "planner/search/ranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "planner/costs/simulation.h"
#include "planner/search/bounds.h"

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

// Those that fit first, the best of them on top; then by how much they miss.
bool before(const Candidate& a, const Candidate& b) {
  if (a.standing != b.standing) return a.standing < b.standing;
  if (a.standing == Standing::Slower) return better(*a.best, *b.best);
  return a.standing == Standing::Memory && a.best->over < b.best->over;
}

// The more precise figure of the two plans that both have.
double ratio(const Plan& plan, const Plan& best) {
  const bool simulated = plan.simulated_tokens_per_s > 0 && best.simulated_tokens_per_s > 0;
  return simulated ? plan.simulated_tokens_per_s / best.simulated_tokens_per_s
                   : plan.sequences_per_s / best.sequences_per_s;
}

// Other plans of the candidates, as long as one would be better by the time model, which mostly says too much
// where links are shared, than the best is by simulation.
void simulate_others(const Problem& problem, int count, std::vector<Candidate>& candidates) {
  struct Other {
    Candidate* candidate;
    Estimate* estimate;
  };
  std::vector<Other> others;
  for (Candidate& candidate : candidates) {
    if (candidate.standing != Standing::Slower || candidate.best->plan.simulated_tokens_per_s <= 0) continue;
    for (Estimate& estimate : candidate.others) others.push_back({&candidate, &estimate});
  }
  std::ranges::stable_sort(others, std::greater(),
                           [](const Other& other) { return other.estimate->plan.tokens_per_s; });
  double best = candidates.front().best->plan.simulated_tokens_per_s;
  for (int i = 0; i < std::min<int>(count, std::ssize(others)); ++i) {
    auto [candidate, estimate] = others[i];
    if (estimate->plan.tokens_per_s <= best * (1 + kSame)) break;
    estimate->plan.simulated_tokens_per_s = simulated_tokens_per_s(problem, estimate->plan);
    best = std::max(best, estimate->plan.simulated_tokens_per_s);
    if (estimate->plan.simulated_tokens_per_s > candidate->best->plan.simulated_tokens_per_s * (1 + kSame))
      std::swap(*estimate, *candidate->best);
  }
}

// Ranks the candidates that are first by the time model again, leaving out those far behind.
void simulate_best(const Problem& problem, int count, std::vector<Candidate>& candidates) {
  constexpr double near = 0.8;
  auto end = candidates.begin();
  const double best = candidates.front().best->plan.sequences_per_s;
  for (; end != candidates.end() && end - candidates.begin() < count && end->standing == Standing::Slower;
       ++end) {
    if (end->best->plan.sequences_per_s < near * best) break;
    Plan& plan = end->best->plan;
    plan.simulated_tokens_per_s = simulated_tokens_per_s(problem, plan);
  }
  const auto sort = [&] {
    const auto speed = [](const Candidate& candidate) {
      return candidate.best ? candidate.best->plan.simulated_tokens_per_s : 0;
    };
    std::stable_sort(candidates.begin(), end, [&](const Candidate& a, const Candidate& b) {
      return speed(a) > speed(b) * (1 + kSame);
    });
  };
  sort();
  simulate_others(problem, 2 * count, candidates);
  sort();
}

}  // namespace

void rank(const Problem& problem, const SearchOptions& options, SearchResult& result) {
  std::vector<Candidate>& candidates = result.candidates;
  std::stable_sort(candidates.begin(), candidates.end(), before);
  if (candidates.empty() || candidates.front().standing != Standing::Slower) return;
  if (options.simulate > 0) simulate_best(problem, options.simulate, candidates);
  result.best = candidates.front().best;
  for (Candidate& candidate : candidates) {
    if (candidate.standing != Standing::Slower) continue;
    candidate.ratio = ratio(candidate.best->plan, result.best->plan);
    candidate.reason = fmt::format("{:.1f}% less throughput", 100 * (1 - candidate.ratio));
  }
  candidates.front().standing = Standing::Best;
  candidates.front().reason.clear();
}

}  // namespace twobw::planner
