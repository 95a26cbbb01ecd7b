// A captured step, or several, ready to be launched without LibTorch: as one kernel where all that was queued
// can be part of it, else as a graph.
#pragma once

#include <ATen/cuda/CUDAGraph.h>
#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

#include "inference/step_graphs.h"
#include "models/cuda/step_program.h"

namespace twobw::inference {

// The tensors that are queued with stay with it.
class ReadyGraph {
 public:
  // Captures what `queue` queues, which was queued once before.
  explicit ReadyGraph(const std::function<void()>& queue);
  ~ReadyGraph();
  ReadyGraph(const ReadyGraph&) = delete;
  ReadyGraph& operator=(const ReadyGraph&) = delete;

  void launch() const;
  // As it is launched.
  StepGraphs::GraphNodes nodes();

 private:
  at::cuda::CUDAGraph captured_;
  std::unique_ptr<models::cuda::StepProgram> program_;  // null: the graph is launched
  cudaGraphExec_t ready_ = nullptr;
};

}  // namespace twobw::inference
