// The candidates: all plans of one schedule and number of replicas, each with its best. The space is that of
// planning/planner/search/search.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planning/planner/costs/estimate.h"
#include "planning/planner/costs/plan.h"

namespace twobw::planner {

struct SearchOptions {
  // Rank the best plans of so many candidates again by simulation, and up to four times as many others that
  // would be better by a formula than the best of those is by simulation; 0: trust the time model.
  int simulate = 8;
  // Families that come so near the best have their own best plan, others one not far from it.
  double near = 0.02;
  // Where nothing fits, look for what would make it fit.
  bool remedies = true;
  // Where unlike nodes give a pipeline more places than this, fewer are looked at; 0: as many as take
  // seconds at most.
  int most_places = 0;
};

enum class Standing {
  Best,
  Slower,     // its best plan is not the fastest
  Memory,     // none of its plans fits
  NotAllowed  // it has no plans
};

// All plans of one schedule and number of replicas.
struct Candidate {
  schedule::Kind schedule = schedule::Kind::TwoBW;
  int replicas = 1;
  Standing standing = Standing::NotAllowed;
  // The best that fits; where the candidate cannot come near the best of all, one not far from it.
  // Where none fits the one that comes closest to it.
  std::optional<Estimate> best;
  // Others that fit, of other settings mostly: found before it, or best by a formula that says less of shared
  // links.
  std::vector<Estimate> others;
  double ratio = 0;    // its throughput, of the chosen plan's; each simulated, where it was
  std::string reason;  // why it lost, in words; empty for the best
};

// When nothing fits.
struct Shortfall {
  Estimate closest;                   // see its `over` and `tightest`
  std::vector<std::string> remedies;  // what would make it fit, each alone
};

struct SearchResult {
  std::optional<Estimate> best;
  std::vector<Candidate> candidates;  // the best first
  std::optional<Shortfall> shortfall;
  std::int64_t settings = 0;  // combinations of all but split and placement
  std::int64_t stages = 0;    // stages worked out
  // Whether no plan is better than the best by the time model; where links are shared, also by what stages
  // wait for on them.
  bool exact = true;
  std::string restriction;  // what was left out, where the search is not exact
};

// "2bw, 4 replicas".
std::string name(const Candidate& candidate);

// All of them, ranked, without a word on what would make a model fit. Throws InputError where what is fixed
// contradicts itself, the cluster or the costs.
SearchResult rank_candidates(const Problem& problem, const SearchOptions& options);

}  // namespace twobw::planner
