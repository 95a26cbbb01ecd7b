// Executes the lists of all workers on paper: compute takes whole ticks, everything else none. The checker
// asks whether the execution ends, the grid asks when.
//
// In addition to the instructions before it in its list, an instruction waits for:
//   RecvActivation k   the SendActivation k of stage r-1
//   RecvGradient k     the SendGradient k of stage r+1
//   ReduceGradients j  on stage 0, the ReduceGradients j of the last stage of every replica: the gradient of
//                      a tied embedding. (This is stricter than the runtime, where only the last replica
//                      waits, and only with a tie.)
//   Step j             the ReduceGradients j of every worker: the sum over the replicas, the global norm
//                      and the non-finite check. In a single pipeline stage 0 takes the gradient of the tie
//                      when it steps and only then knows its norm: the others wait for its Step j
//   Evaluate j         the Evaluate j of stage r-1, and all later stages to have reached theirs, since no
//                      stage sends more than the next one receives
//   BeginBatch j       the BeginBatch j of worker 0, which decides whether batch j runs
// Stages r-1 and r+1 belong to the same replica. A send never waits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/schedule/schedule_rule.h"

namespace twobw::schedule {

// Ticks of the instructions that compute.
struct Costs {
  std::int64_t forward = 1;
  std::int64_t backward = 2;
  std::int64_t evaluate = 1;
};

struct Span {
  std::int64_t start = 0;
  std::int64_t end = 0;
};

struct Execution {
  // times[r][i] of lists[r][i]; shorter than the list if worker r is stuck.
  std::vector<std::vector<Span>> times;
  // The workers that wait forever, with their instructions; empty if every list runs to its end.
  std::string deadlock;

  std::int64_t ticks() const;  // from the first start to the last end
};

// Starts every instruction as early as its list and the waits above allow. Accepts any lists, including
// broken ones: one per worker, pipeline after pipeline. `only_one`: the run has a single pipeline.
Execution execute(const Lists& lists, const Costs& costs = {}, int replicas = 1, bool only_one = false);

// Ticks from the end of one batch to the end of the next, once the pipeline is full.
double steady_ticks_per_batch(const Spec& spec, const Costs& costs = {});

}  // namespace twobw::schedule
