// Looks for the plan with the highest throughput that fits. The space, all of which is searched:
//
//   schedule      2bw, flush, gpipe, sequential (stash is a baseline, not planned)
//   w replicas    every number up to the largest island, and the multiples of every island's size
//   placement     as in planner/placement.h: replicas of a stage close together, or spread over nodes
//   d, split      any number of stages, any runs of layers
//   b             the microbatch sizes that were measured
//   m             as many microbatches as the batch allows, floor(B / (b w))
//   e             under 2bw and flush none, one or two extra microbatches in flight for every boundary
//                 (two hide a transfer that takes as long as a stage's computation, there and back)
//   gradients     under 2bw two buffers on every stage that waits, or one
//   recomputation by stage, where its memory needs it
//
// or what of these the problem fixes. The most sequences a second win by planner/time_model.h; then what
// needs less memory on all devices together, then fewer devices. Only where a plan's second gradient buffers
// do not fit it has one. Where unlike nodes make the ways to place a pipeline too many the search leaves some
// out and says so. Every family gets a good plan first; then only what may still come near the best of all,
// or with two gradient buffers be the best of a 2bw family, is looked at until no plan can be better.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan.h"
#include "planner/time_model.h"

namespace twobw::planner {

struct SearchOptions {
  // Rank the best plans of so many families again by simulation; 0: trust the time model.
  int simulate = 8;
  // Families that come so near the best have their own best plan, others one not far from it.
  double near = 0.02;
  // Where nothing fits, look for what would make it fit.
  bool remedies = true;
  // Where unlike nodes give a pipeline more places than this, fewer are looked at; 0: as many as take
  // seconds at most.
  int most_places = 0;
};

enum class Verdict {
  Best,
  Slower,     // its best plan is not the fastest
  Memory,     // none of its plans fits
  NotAllowed  // it has no plans
};

// All plans of one schedule and number of replicas.
struct Family {
  schedule::Kind schedule = schedule::Kind::TwoBW;
  int replicas = 1;
  Verdict verdict = Verdict::NotAllowed;
  // The best that fits; where the family cannot come near the best, and is not of 2bw with two gradient
  // buffers, one not far from it.
  // Where none fits the one that comes closest to it.
  std::optional<Estimate> best;
  double ratio = 0;    // its throughput, of the chosen plan's; both simulated, where both were
  std::string reason;  // why it lost, in words; empty for the best
};

// When nothing fits.
struct Shortfall {
  Estimate closest;                   // see its `over` and `tightest`
  std::vector<std::string> remedies;  // what would make it fit, each alone
};

struct SearchResult {
  std::optional<Estimate> best;
  std::vector<Family> families;  // the best first
  std::optional<Shortfall> shortfall;
  std::int64_t settings = 0;  // combinations of all but split and placement
  std::int64_t stages = 0;    // stages worked out
  bool exact = true;
  std::string restriction;  // what was left out, where the search is not exact
};

// "2bw, 4 replicas".
std::string name(const Family& family);

// Throws InputError where what is fixed contradicts itself, the cluster or the costs.
SearchResult search(const Problem& problem, const SearchOptions& options = {});

}  // namespace twobw::planner
