// Looks for the plan with the highest throughput that fits. The space, all of which is searched:
//
//   schedule      2bw, flush, gpipe, sequential (stash is a baseline, not planned)
//   w replicas    every number up to the largest island, and the multiples of every island's size
//   placement     as in planning/planner/search/placement.h: replicas of a stage close together, or spread
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
// simulation is taken, and plans near it that are better yet (climb.h).
#pragma once

#include "planning/planner/search/candidates.h"

namespace twobw::planner {

// The candidates, ranked, and where none fits what would make one fit. Throws InputError where what is fixed
// contradicts itself, the cluster or the costs.
SearchResult search(const Problem& problem, const SearchOptions& options = {});

}  // namespace twobw::planner
