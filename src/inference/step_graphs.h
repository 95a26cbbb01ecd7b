// Steps of a decoder on a GPU: captured once for so many rows, with tokens and places in the GPU's memory,
// and launched from then on.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "models/model.h"

namespace twobw::inference {

// Used by the thread of a stage, on whose current stream the graphs are captured.
class StepGraphs {
 public:
  // Queues the layers of a step; gives what they hand on, or the logits.
  using Work = std::function<models::Tensors(const models::Step& step, const models::Tensors& inputs)>;

  virtual ~StepGraphs() = default;

  // One token of every row, at the place `seen`. What comes out is overwritten by the next step.
  virtual models::Tensors run(std::span<const std::int64_t> tokens, std::span<const std::int64_t> seen,
                              const models::Tensors& inputs) = 0;

  // Of a stage that has all layers: from these on the GPU takes each row's likeliest token by itself. Places
  // stop at the cache's last.
  virtual void begin_likeliest(std::span<const std::int64_t> tokens, std::span<const std::int64_t> seen) = 0;
  // Those of the next step, in order. Steps after it are queued before this waits.
  virtual std::vector<std::int64_t> next_likeliest() = 0;

  // For measurements: what the host has done so far, and the graphs that it launches.
  struct HostTimes {
    double launch_s = 0, wait_s = 0;
    std::int64_t launches = 0, waits = 0;
  };
  struct GraphNodes {
    std::int64_t kernels = 0, others = 0;
    std::int64_t early = 0;  // that begin before those before them have ended
  };
  virtual HostTimes host_times() const = 0;
  virtual GraphNodes likeliest_nodes() = 0;  // of those that begin_likeliest began
};

// Steps that are launched at once where the GPU takes the likeliest tokens. Twice as many are queued, so that
// some may be for nothing after the last that is wanted.
inline constexpr int kStepsOfGraph = 4;

// `places`: of the cache that `work` uses. Asserts in a build without CUDA.
std::unique_ptr<StepGraphs> make_step_graphs(StepGraphs::Work work, const at::TensorOptions& compute,
                                             std::int64_t places, int steps_of_graph = kStepsOfGraph);

}  // namespace twobw::inference
