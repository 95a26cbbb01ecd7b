#include "engine/runtime/placement.h"

#include <algorithm>

#include "core/base/error.h"

namespace twobw::runtime {

Placement::Placement(const PipelineShape& shape, int processes, int rank)
    : stages_(shape.stages),
      replicas_(shape.replicas),
      workers_here_(shape.workers() / processes),
      rank_(rank) {
  if (shape.workers() % processes == 0) return;
  fail_input(
      "pipeline.stages {} times pipeline.replicas {} makes {} workers, which {} processes cannot share "
      "evenly; it must be a multiple of {}",
      shape.stages, shape.replicas, shape.workers(), processes, processes);
}

std::vector<int> Placement::ranks_of_stage(int stage) const {
  std::vector<int> ranks;
  for (int replica = 0; replica < replicas_; ++replica) ranks.push_back(rank_of(replica * stages_ + stage));
  return ranks;
}

int Placement::replicas_here(int stage) const {
  const std::vector<int> ranks = ranks_of_stage(stage);
  return static_cast<int>(std::ranges::count(ranks, rank_));
}

bool Placement::spans_processes(int stage) const {
  const std::vector<int> ranks = ranks_of_stage(stage);
  return ranks.front() != ranks.back();
}

}  // namespace twobw::runtime
