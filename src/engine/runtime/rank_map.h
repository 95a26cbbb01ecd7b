// The map from workers to processes: equal counts, in the order of worker numbers (core/schedule/spec.h).
#pragma once

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "core/base/pipeline_shape.h"

namespace twobw::runtime {

class RankMap {
 public:
  // Throws InputError unless the processes can share the workers evenly.
  RankMap(const PipelineShape& shape, int processes, int rank)
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

  int rank() const { return rank_; }
  int first_worker() const { return rank_ * workers_here_; }
  int workers_here() const { return workers_here_; }
  int rank_of(int worker) const { return worker / workers_here_; }
  bool is_here(int worker) const { return rank_of(worker) == rank_; }

  // For a stage: the rank of each replica, ascending; the number of local replicas; whether ranks differ.
  std::vector<int> ranks_of_stage(int stage) const {
    std::vector<int> ranks;
    for (int replica = 0; replica < replicas_; ++replica) ranks.push_back(rank_of(replica * stages_ + stage));
    return ranks;
  }
  int replicas_here(int stage) const {
    return static_cast<int>(std::ranges::count(ranks_of_stage(stage), rank_));
  }
  bool spans_processes(int stage) const {
    const std::vector<int> ranks = ranks_of_stage(stage);
    return ranks.front() != ranks.back();
  }

 private:
  int stages_, replicas_, workers_here_, rank_;
};

}  // namespace twobw::runtime
