#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "app/inference/decoder.h"
#include "engine/device/gpu.h"
#include "engine/runtime/gpu/graphs.h"

namespace twobw::inference {
namespace {

using at::Tensor;
using models::Tensors;

struct Captured {
  Tensor tokens, seen;  // [rows, 1], [rows]
  Tensors inputs, outputs;
  std::unique_ptr<at::cuda::CUDAGraph> graph;  // null until the first step
};

class Graphs {
 public:
  Graphs(StepWork work, const at::TensorOptions& compute)
      : work_(std::move(work)), options_(compute.dtype(at::kLong)) {}

  Tensors run(std::span<const std::int64_t> tokens, std::span<const std::int64_t> seen,
              const Tensors& inputs) {
    Captured& step = of_rows_[std::ssize(tokens)];
    if (!step.graph) {
      step.tokens = at::zeros({std::ssize(tokens), 1}, options_);
      step.seen = at::zeros({std::ssize(seen)}, options_);
      for (const Tensor& input : inputs) step.inputs.push_back(at::empty_like(input));
    }
    upload(tokens, step.tokens);
    upload(seen, step.seen);
    for (std::size_t i = 0; i < inputs.size(); ++i) step.inputs[i].copy_(inputs[i], /*non_blocking=*/true);
    if (!step.graph) capture(step);
    step.graph->replay();
    return step.outputs;
  }

 private:
  static void upload(std::span<const std::int64_t> from, const Tensor& to) {
    const Tensor host = at::empty({std::ssize(from)}, at::kLong);
    std::ranges::copy(from, host.mutable_data_ptr<std::int64_t>());
    to.flatten().copy_(host);
  }

  void capture(Captured& step) const {
    const auto queue = [&] { return work_({.tokens = step.tokens, .seen = step.seen}, step.inputs); };
    std::lock_guard lock(runtime::gpu::capture_mutex());
    // Libraries create handles and choose algorithms at the first use, which a capture must not contain. The
    // replay repeats this step: it writes the same keys and values to the same positions.
    queue();
    device::check_cuda(cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream().stream()), "the first step");
    auto graph = std::make_unique<at::cuda::CUDAGraph>();
    graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    step.outputs = queue();
    graph->capture_end();
    step.graph = std::move(graph);
  }

  StepWork work_;
  at::TensorOptions options_;
  std::map<std::int64_t, Captured> of_rows_;
};

}  // namespace

StepGraphs make_step_graphs(StepWork work, const at::TensorOptions& compute) {
  return [graphs = std::make_shared<Graphs>(std::move(work), compute)](
             auto tokens, auto seen, const auto& inputs) { return graphs->run(tokens, seen, inputs); };
}

}  // namespace twobw::inference
