#include "inference/step_graphs.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <array>
#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "device/gpu.h"
#include "models/ops_cuda.h"
#include "runtime/gpu/memory.h"

namespace twobw::inference {
namespace {

using at::Tensor;
using device::check_cuda;
using models::Tensors;

// Numbers in pinned memory, and when they are there.
class Fetched {
 public:
  explicit Fetched(std::int64_t count)
      : host_(at::empty({count}, at::TensorOptions(at::kLong).pinned_memory(true))) {}

  void queue(const Tensor& from) {
    host_.copy_(from, /*non_blocking=*/true);
    ready_ = device::record_stream_event(c10::cuda::getCurrentCUDAStream().stream());
  }
  std::vector<std::int64_t> await() const {
    check_cuda(cudaEventSynchronize(static_cast<cudaEvent_t>(ready_.get())), "a step");
    const auto* data = host_.const_data_ptr<std::int64_t>();
    return {data, data + host_.numel()};
  }

 private:
  Tensor host_;
  device::StreamEvent ready_;
};

// Of so many rows.
struct Captured {
  Tensor tokens, seen;  // [rows, 1], [rows]
  Tensor room;          // of take_likeliest
  Tensors inputs, outputs;
  std::unique_ptr<at::cuda::CUDAGraph> step;
  std::unique_ptr<at::cuda::CUDAGraph> likeliest;  // the step, and the tokens of the next
  std::array<std::unique_ptr<Fetched>, 2> fetched;
  std::int64_t queued = 0, taken = 0;  // steps of the row that begin_likeliest began
};

class GpuStepGraphs final : public StepGraphs {
 public:
  GpuStepGraphs(Work work, const at::TensorOptions& compute, std::int64_t places)
      : work_(std::move(work)), options_(compute.dtype(at::kLong)), places_(places) {}

  Tensors run(std::span<const std::int64_t> tokens, std::span<const std::int64_t> seen,
              const Tensors& inputs) override {
    Captured& graph = of_rows(std::ssize(tokens));
    upload(graph, tokens, seen);
    if (graph.inputs.empty()) {
      for (const Tensor& input : inputs) graph.inputs.push_back(at::empty_like(input));
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) graph.inputs[i].copy_(inputs[i], /*non_blocking=*/true);
    if (!graph.step) {
      // The step may be made twice: it keeps the same keys and values at the same places.
      graph.step = capture([&] { graph.outputs = step_of(graph); });
    }
    graph.step->replay();
    return graph.outputs;
  }

  void begin_likeliest(std::span<const std::int64_t> tokens, std::span<const std::int64_t> seen) override {
    Captured& graph = of_rows(std::ssize(tokens));
    current_ = &graph;
    upload(graph, tokens, seen);
    if (!graph.likeliest) {
      graph.likeliest = capture([&] { advance(graph, step_of(graph).front()); });
      upload(graph, tokens, seen);  // it was made once before it was captured
      for (auto& fetched : graph.fetched) fetched = std::make_unique<Fetched>(std::ssize(tokens));
    }
    graph.queued = graph.taken = 0;
    queue_next(graph);
  }

  std::vector<std::int64_t> next_likeliest() override {
    TWOBW_ASSERT(current_ != nullptr, "no row has begun");
    Captured& graph = *current_;
    queue_next(graph);
    return graph.fetched[static_cast<std::size_t>(graph.taken++ % 2)]->await();
  }

 private:
  Captured& of_rows(std::int64_t rows) {
    Captured& graph = graphs_[rows];
    if (!graph.tokens.defined()) {
      graph.tokens = at::zeros({rows, 1}, options_);
      graph.seen = at::zeros({rows}, options_);
      graph.room = at::zeros({rows, 2}, options_);
    }
    return graph;
  }

  static void upload(const Captured& graph, std::span<const std::int64_t> tokens,
                     std::span<const std::int64_t> seen) {
    const auto to = [](std::span<const std::int64_t> from, const Tensor& place) {
      const Tensor host = at::empty({std::ssize(from)}, at::kLong);
      std::copy(from.begin(), from.end(), host.mutable_data_ptr<std::int64_t>());
      place.flatten().copy_(host);
    };
    to(tokens, graph.tokens);
    to(seen, graph.seen);
  }

  Tensors step_of(const Captured& graph) const {
    return work_({.tokens = graph.tokens, .seen = graph.seen}, graph.inputs);
  }

  // The next tokens take the place of these.
  void advance(const Captured& graph, const Tensor& logits) const {
    models::ops::cuda::take_likeliest(logits, graph.tokens, graph.seen, places_, graph.room);
  }

  void queue_next(Captured& graph) {
    graph.likeliest->replay();
    graph.fetched[static_cast<std::size_t>(graph.queued++ % 2)]->queue(graph.tokens.flatten());
  }

  // Libraries choose algorithms and make handles at the first use, which a capture must not see.
  std::unique_ptr<at::cuda::CUDAGraph> capture(const std::function<void()>& queue) {
    std::lock_guard lock(runtime::gpu::capture_mutex());
    queue();
    check_cuda(cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream()), "the first step");
    auto graph = std::make_unique<at::cuda::CUDAGraph>();
    graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    queue();
    graph->capture_end();
    return graph;
  }

  Work work_;
  at::TensorOptions options_;
  std::int64_t places_;
  std::map<std::int64_t, Captured> graphs_;  // by rows
  Captured* current_ = nullptr;
};

}  // namespace

std::unique_ptr<StepGraphs> make_step_graphs(StepGraphs::Work work, const at::TensorOptions& compute,
                                             std::int64_t places) {
  return std::make_unique<GpuStepGraphs>(std::move(work), compute, places);
}

}  // namespace twobw::inference
