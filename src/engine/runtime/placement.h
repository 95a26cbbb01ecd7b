// Which process hosts which workers: as many each, in the order of their numbers (core/schedule/spec.h).
#pragma once

#include <vector>

#include "core/base/pipeline_shape.h"

namespace twobw::runtime {

class Placement {
 public:
  // Throws InputError where the workers cannot be dealt out evenly.
  Placement(const PipelineShape& shape, int processes, int rank);

  int rank() const { return rank_; }
  int first_worker() const { return rank_ * workers_here_; }
  int workers_here() const { return workers_here_; }
  int rank_of(int worker) const { return worker / workers_here_; }
  bool is_here(int worker) const { return rank_of(worker) == rank_; }

  // Of a stage: the rank of each replica, rising; how many are here; whether they are in several processes.
  std::vector<int> ranks_of_stage(int stage) const;
  int replicas_here(int stage) const;
  bool spans_processes(int stage) const;

 private:
  int stages_, replicas_, workers_here_, rank_;
};

}  // namespace twobw::runtime
