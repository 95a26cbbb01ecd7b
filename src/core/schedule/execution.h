// Runs the lists of all workers together on paper: what can run when, if compute takes whole ticks
// and everything else takes none. The checker asks whether it ends, the grid asks when.
//
// What an instruction waits for, besides those before it in its own list:
//   RecvActivation k   the SendActivation k of stage r-1
//   RecvGradient k     the SendGradient k of stage r+1
//   ReduceGradients j  on stage 0, the ReduceGradients j of the last stage of every replica: the gradient of
//                      a tied embedding. (Really it is only the last replica to come that waits, and
//                      only where there is a tie: what runs here, runs there.)
//   Step j             the ReduceGradients j of every worker: the sum over the replicas, the global norm
//                      and the non-finite check. Of a pipeline that is the only one stage 0 takes the
//                      gradient of the tie when it steps, and only then knows its norm: the others wait for
//                      its Step j
//   Evaluate j         the Evaluate j of stage r-1; and all later stages to have come to theirs, since no
//                      stage sends more than they take
//   BeginBatch j       the BeginBatch j of worker 0, which decides whether batch j runs
// Stages r-1 and r+1 are those of the same replica. A send never waits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/schedule/schedule_rule.h"

namespace twobw::schedule {

// Ticks of what computes.
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
  // times[r][i] is of lists[r][i]; shorter than the list where worker r is stuck.
  std::vector<std::vector<Span>> times;
  // Which workers wait for ever, and before what; empty when every list runs to its end.
  std::string deadlock;

  std::int64_t ticks() const;  // from the first start to the last end
};

// Every instruction starts as early as its list and the waits above allow. Any lists will do, broken
// ones too: one a worker, pipeline after pipeline. `only_one`: the lists are of one replica, and there are no
// others.
Execution execute(const Lists& lists, const Costs& costs = {}, int replicas = 1, bool only_one = false);

// Ticks from the end of one batch to the end of the next, once the pipeline is full.
double steady_ticks_per_batch(const Spec& spec, const Costs& costs = {});

}  // namespace twobw::schedule
