// The numbers that the search tries, see search.h.
#pragma once

#include <vector>

#include "planning/planner/costs/plan.h"

namespace twobw::planner {

// Throws InputError if the fixed settings contradict each other, the cluster or the costs.
void validate(const Problem& problem);

std::vector<schedule::Kind> schedules_to_try(const Problem& problem);
std::vector<int> replicas_to_try(const Problem& problem);
// Microbatch sizes with known costs on any kind of device.
std::vector<int> microbatches_to_try(const Problem& problem);
// m; 0: not even one microbatch.
int microbatch_count(const Problem& problem, int replicas, int microbatch);
// e, where it is fixed and matters to the schedule; else 0.
int fixed_extra(const Problem& problem, schedule::Kind schedule);
// Whether to have a second gradient buffer, where the schedule can.
std::vector<bool> second_gradients_to_try(const Problem& problem, schedule::Kind schedule);
// For a shape without defer_tied_update.
std::vector<bool> late_ties_to_try(const Problem& problem, const PipelineShape& shape);
// Extra microbatches in flight for every boundary between two stages, where e is not fixed.
std::vector<int> extras_to_try(const Problem& problem, schedule::Kind schedule);

}  // namespace twobw::planner
