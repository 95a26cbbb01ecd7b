// Finds the plan with the highest throughput that fits. The space:
//
//   schedule      2bw, flush, gpipe, sequential (stash is a baseline, not planned)
//   w replicas    every number up to the largest island, and the multiples of every island's size
//   placement     as in search/places.h: the replicas of a stage close together, or spread over nodes
//   d, split      any number of stages, any runs of layers
//   b             the microbatch sizes with known costs
//   m             as many microbatches as the batch allows, floor(B / (b w))
//   e             under 2bw and flush none, one or two extra microbatches in flight for every boundary
//                 (two hide a transfer that takes as long as a stage's computation, there and back)
//   gradients     under 2bw two buffers on every stage that waits, or one
//   recomputation on the stages whose memory needs it
//
// minus the fixed settings. Four steps: dynamic programming proposes plans by the time model (frontier.h,
// partition.h; approximately for every setting, then exactly if that may matter), the simulator ranks them
// (ranking.h), local search polishes the best (local_search.h), and all three look once more for a faster
// plan with another number of stages, one number at a time, as far as time allows. Of equally fast plans the
// one with less memory on all devices together wins, then the one with fewer devices. A plan has one gradient
// buffer only if its second ones do not fit. If unlike nodes allow too many placements, some are left out
// (SearchResult::restriction).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planning/planner/costs/estimate.h"
#include "planning/planner/costs/plan.h"

namespace twobw::planner {

struct SearchOptions {
  // Number of candidates whose best plans are simulated, and up to four times as many other plans that a
  // formula puts above the best simulated one; 0: rank by the time model alone.
  int simulate = 8;
  // Candidates this near the best get their exact best plan, others one not far from it.
  double near = 0.02;
  // If no plan fits, looks for changes that would make one fit.
  bool suggestions = true;
  // Looks only for plans that are faster: sequences a second.
  double beat = 0;
  // Limit of the places of a pipeline on unlike nodes; 0: as many as take seconds at most.
  int most_places = 0;
};

enum class Status {
  Best,
  Slower,     // its best plan is not the fastest
  Memory,     // all its plans exceed the memory
  NotAllowed  // it has no plans
};

// All plans of one schedule and number of replicas.
struct Candidate {
  schedule::Kind schedule = schedule::Kind::TwoBW;
  int replicas = 1;
  Status status = Status::NotAllowed;
  // The best that fits, or one not far from it if the candidate cannot come near the best of all. If none
  // fits: the one that exceeds its memory least.
  std::optional<Estimate> best;
  // Other plans that fit, mostly of other settings: found earlier, or best by a formula with less contention.
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
  std::int64_t work = 0;      // these, their labels and the instructions simulated
  // Whether no plan is better by the time model, including contention on shared links.
  bool exact = true;
  std::string restriction;  // the plans left out, if any
};

// "2bw, 4 replicas".
std::string name(const Candidate& candidate);

// The ranked candidates, and suggestions if none fits. Throws InputError if the fixed settings contradict
// each other, the cluster or the costs.
SearchResult search(const Problem& problem, const SearchOptions& options = {});
// search() without suggestions.
SearchResult rank_candidates(const Problem& problem, const SearchOptions& options);

}  // namespace twobw::planner
