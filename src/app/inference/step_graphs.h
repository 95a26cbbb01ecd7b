// Decode steps on a GPU: one CUDA graph per number of rows, captured at its first use and replayed.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "engine/models/model.h"

namespace twobw::inference {

// Used by one stage's thread, on whose current stream the graphs are captured.
class StepGraphs {
 public:
  // Queues the layers of a step and returns the stage's outputs.
  using Work = std::function<models::Tensors(const models::Step& step, const models::Tensors& inputs)>;

  virtual ~StepGraphs() = default;

  // One token per row, each at position `seen` of its row. The outputs are overwritten by the next step.
  virtual models::Tensors run(std::span<const std::int64_t> tokens, std::span<const std::int64_t> seen,
                              const models::Tensors& inputs) = 0;
};

// Asserts in a build without CUDA.
std::unique_ptr<StepGraphs> make_step_graphs(StepGraphs::Work work, const at::TensorOptions& compute);

}  // namespace twobw::inference
