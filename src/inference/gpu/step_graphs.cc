#include "inference/step_graphs.h"

#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "device/gpu.h"
#include "inference/gpu/ready_graph.h"
#include "inference/gpu/told_tokens.h"
#include "models/ops_cuda.h"
#include "runtime/gpu/memory.h"

namespace twobw::inference {
namespace {

using at::Tensor;
using device::check_cuda;
using models::Tensors;

using Clock = std::chrono::steady_clock;

double seconds_from(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Of so many rows.
struct Captured {
  Tensor tokens, seen;  // [rows, 1], [rows]
  Tensor room;          // of take_likeliest
  Tensors inputs, outputs;
  std::unique_ptr<ReadyGraph> step;
  // Some steps each, and the tokens of the next. They take turns, so that none is launched while it runs, and
  // each has a half of the slots.
  std::array<std::unique_ptr<ReadyGraph>, 2> likeliest;
  std::unique_ptr<ToldTokens> told;
  std::int64_t launched = 0, taken = 0;  // graphs and steps of what begin_likeliest began
};

class GpuStepGraphs final : public StepGraphs {
 public:
  GpuStepGraphs(Work work, const at::TensorOptions& compute, std::int64_t places, int steps_of_graph)
      : work_(std::move(work)),
        options_(compute.dtype(at::kLong)),
        places_(places),
        steps_of_graph_(steps_of_graph) {}
  // What is queued uses the tokens' memory.
  ~GpuStepGraphs() override { cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream().stream()); }

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
      const auto queue = [&] { graph.outputs = step_of(graph); };
      std::lock_guard lock(runtime::gpu::capture_mutex());
      make_once(queue);
      graph.step = std::make_unique<ReadyGraph>(queue);
    }
    graph.step->launch();
    return graph.outputs;
  }

  void begin_likeliest(std::span<const std::int64_t> tokens, std::span<const std::int64_t> seen) override {
    Captured& graph = of_rows(std::ssize(tokens));
    current_ = &graph;
    upload(graph, tokens, seen);
    if (!graph.told) {
      capture_likeliest(graph, std::ssize(tokens));
      upload(graph, tokens, seen);  // a step was made before they were captured
    }
    // Steps that were begun before and that nobody has asked for write tokens too.
    check_cuda(cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream().stream()), "the steps before");
    graph.launched = graph.taken = 0;
    launch_next(graph);
  }

  std::vector<std::int64_t> next_likeliest() override {
    TWOBW_ASSERT(current_ != nullptr, "no row has begun");
    Captured& graph = *current_;
    // All steps of the graph before have been taken: it does not run any more.
    if (graph.taken % steps_of_graph_ == 0) launch_next(graph);
    const auto begin = Clock::now();
    auto tokens = graph.told->await(graph.taken++ % (2 * steps_of_graph_), [] {
      return cudaStreamQuery(c10::cuda::getCurrentCUDAStream().stream());
    });
    host_times_.wait_s += seconds_from(begin);
    ++host_times_.waits;
    return tokens;
  }

  HostTimes host_times() const override { return host_times_; }
  StepGraphs::GraphNodes likeliest_nodes() override {
    TWOBW_ASSERT(current_ != nullptr, "no row has begun");
    return current_->likeliest.front()->nodes();
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

  // A step, after which the next tokens take the place of these.
  void queue_step(const Captured& graph, std::int64_t slot) const {
    models::ops::cuda::take_likeliest(step_of(graph).front(), graph.tokens, graph.seen, places_, graph.room,
                                      graph.told->on_gpu(slot));
  }

  void capture_likeliest(Captured& graph, std::int64_t rows) {
    graph.told = std::make_unique<ToldTokens>(2 * steps_of_graph_, rows);
    std::lock_guard lock(runtime::gpu::capture_mutex());
    make_once([&] { queue_step(graph, 0); });
    for (std::int64_t half : {0, 1}) {
      graph.likeliest[static_cast<std::size_t>(half)] = std::make_unique<ReadyGraph>([&] {
        for (std::int64_t i = 0; i < steps_of_graph_; ++i) queue_step(graph, half * steps_of_graph_ + i);
      });
    }
  }

  void launch_next(Captured& graph) {
    const std::int64_t half = graph.launched++ % 2;
    graph.told->clear(half * steps_of_graph_, steps_of_graph_);
    const auto begin = Clock::now();
    graph.likeliest[static_cast<std::size_t>(half)]->launch();
    host_times_.launch_s += seconds_from(begin);
    ++host_times_.launches;
  }

  // Libraries choose algorithms and make handles at the first use, which a capture must not see.
  static void make_once(const std::function<void()>& queue) {
    queue();
    check_cuda(cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream().stream()), "the first step");
  }

  Work work_;
  at::TensorOptions options_;
  std::int64_t places_, steps_of_graph_;
  HostTimes host_times_;
  std::map<std::int64_t, Captured> graphs_;  // by rows
  Captured* current_ = nullptr;
};

}  // namespace

std::unique_ptr<StepGraphs> make_step_graphs(StepGraphs::Work work, const at::TensorOptions& compute,
                                             std::int64_t places, int steps_of_graph) {
  TWOBW_ASSERT(steps_of_graph > 0, "graphs of {} steps", steps_of_graph);
  return std::make_unique<GpuStepGraphs>(std::move(work), compute, places, steps_of_graph);
}

}  // namespace twobw::inference
