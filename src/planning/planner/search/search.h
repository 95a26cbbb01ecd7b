// Looks for the plan with the highest throughput that fits. The space, all of which is searched:
//
//   schedule      2bw, flush, gpipe, sequential (stash is a baseline, not planned)
//   w replicas    every number up to the largest island, and the multiples of every island's size
//   placement     as in planning/planner/search/places.h: replicas of a stage close together, or spread
//   over nodes d, split      any number of stages, any runs of layers b             the microbatch sizes that
//   were measured m             as many microbatches as the batch allows, floor(B / (b w)) e under 2bw and
//   flush none, one or two extra microbatches in flight for every boundary
//                 (two hide a transfer that takes as long as a stage's computation, there and back)
//   gradients     under 2bw two buffers on every stage that waits, or one
//   recomputation by stage, where its memory needs it
//
// or what of these the problem fixes. The most sequences a second win by planning/planner/costs/estimate.h;
// then what needs less memory on all devices together, then fewer devices. Only where a plan's second
// gradient buffers do not fit it has one. Where unlike nodes make the ways to place a pipeline too many the
// search leaves some out and says so. Every candidate gets a good plan first; then only what may still come
// near the best of all (SearchOptions::near; 2bw with two gradient buffers 10%) is looked at until no plan
// can be better. What stages do to each other over shared links is known only of plans that were found: of
// those, the best for every number of stages and the best by formulas that say less of links, the best by
// simulation is taken, and plans near it that are better yet (local_search.h).
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
  // Looks for changes that would make a plan fit, where none does.
  bool suggestions = true;
  // Limit of the places that unlike nodes give a pipeline; 0: as many as take
  // seconds at most.
  int most_places = 0;
};

enum class Status {
  Best,
  Slower,     // its best plan is not the fastest
  Memory,     // none of its plans fits
  NotAllowed  // it has no plans
};

// All plans of one schedule and number of replicas.
struct Candidate {
  schedule::Kind schedule = schedule::Kind::TwoBW;
  int replicas = 1;
  Status status = Status::NotAllowed;
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
struct Infeasibility {
  Estimate closest;                      // see its `over` and `tightest`
  std::vector<std::string> suggestions;  // what would make it fit, each alone
};

struct SearchResult {
  std::optional<Estimate> best;
  std::vector<Candidate> candidates;  // the best first
  std::optional<Infeasibility> infeasibility;
  std::int64_t settings = 0;  // combinations of all but split and placement
  std::int64_t stages = 0;    // stages worked out
  // Whether no plan is better than the best by the time model; where links are shared, also by what stages
  // wait for on them.
  bool exact = true;
  std::string restriction;  // what was left out, where the search is not exact
};

// "2bw, 4 replicas".
std::string name(const Candidate& candidate);

// The candidates, ranked, and where none fits what would make one fit. Throws InputError where what is fixed
// contradicts itself, the cluster or the costs.
SearchResult search(const Problem& problem, const SearchOptions& options = {});
// The same without suggestions.
SearchResult rank_candidates(const Problem& problem, const SearchOptions& options);

}  // namespace twobw::planner
