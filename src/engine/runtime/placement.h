// The map from workers to processes: equal counts, in the order of worker numbers (core/schedule/spec.h).
#pragma once

#include <vector>

#include "core/base/pipeline_shape.h"

namespace twobw::runtime {

class Placement {
 public:
  // Throws InputError unless the processes can share the workers evenly.
  Placement(const PipelineShape& shape, int processes, int rank);

  int rank() const { return rank_; }
  int first_worker() const { return rank_ * workers_here_; }
  int workers_here() const { return workers_here_; }
  int rank_of(int worker) const { return worker / workers_here_; }
  bool is_here(int worker) const { return rank_of(worker) == rank_; }

  // For a stage: the rank of each replica, ascending; the number of local replicas; whether ranks differ.
  std::vector<int> ranks_of_stage(int stage) const;
  int replicas_here(int stage) const;
  bool spans_processes(int stage) const;

 private:
  int stages_, replicas_, workers_here_, rank_;
};

}  // namespace twobw::runtime
