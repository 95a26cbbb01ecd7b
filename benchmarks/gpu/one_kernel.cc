#include "one_kernel.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/gpu.h"
#include "models/cuda/step_program.h"
#include "models/ops_cuda.h"

namespace twobw {
namespace {

using at::Tensor;
using device::check_cuda;
using models::cuda::StepProgram;
using models::cuda::StepTuning;

constexpr int kSteps = 4, kLaunches = 8, kRounds = 9;

struct Variant {
  std::string name;
  std::unique_ptr<StepProgram> program;  // null: the graph
  std::vector<double> times = {};        // us a step
  bool is_same = false;                  // tokens and logits as the graph's

  double median() const {
    auto sorted = times;
    std::ranges::sort(sorted);
    return sorted.empty() ? 0 : sorted[sorted.size() / 2];
  }
};

class Steps {
 public:
  Steps(const inference::StepGraphs::Work& work, const at::TensorOptions& compute, std::int64_t rows,
        std::int64_t seen, std::int64_t places)
      : seen_(seen) {
    const auto numbers = compute.dtype(at::kLong);
    step_.tokens = at::zeros({rows, 1}, numbers);
    step_.seen = at::full({rows}, seen, numbers);
    room_ = at::zeros({rows, 2}, numbers);
    const auto queue = [&] {
      for (int i = 0; i < kSteps; ++i) {
        logits_ = work(step_, {}).front();
        models::ops::cuda::take_likeliest(logits_, step_.tokens, step_.seen, places, room_);
      }
    };
    queue();
    synchronize();
    graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    models::cuda::step_notes() = &notes_;
    queue();
    models::cuda::step_notes() = nullptr;
    graph_.capture_end();
    check_cuda(cudaEventCreate(&begin_), "an event");
    check_cuda(cudaEventCreate(&end_), "an event");
  }
  ~Steps() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;

  const models::cuda::StepNotes& notes() const { return notes_; }

  void restart() const {
    step_.tokens.fill_(1);
    step_.seen.fill_(seen_);
  }
  void launch(const Variant& variant) {
    if (variant.program)
      check_cuda(variant.program->launch(at::cuda::getCurrentCUDAStream()), "a step in one kernel");
    else
      graph_.replay();
  }
  // Of a step, in us.
  double time(const Variant& variant) {
    restart();
    launch(variant);
    const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
    check_cuda(cudaEventRecord(begin_, stream), "an event");
    for (int i = 0; i < kLaunches; ++i) launch(variant);
    check_cuda(cudaEventRecord(end_, stream), "an event");
    check_cuda(cudaEventSynchronize(end_), variant.name.c_str());
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, begin_, end_), "events");
    return 1e3 * milliseconds / (kLaunches * kSteps);
  }
  // The last logits and the tokens of two launches.
  std::pair<Tensor, Tensor> results(const Variant& variant) {
    restart();
    for (int i = 0; i < 2; ++i) launch(variant);
    synchronize();
    return {logits_.cpu(), step_.tokens.cpu()};
  }
  static void synchronize() {
    check_cuda(cudaStreamSynchronize(at::cuda::getCurrentCUDAStream()), "the steps");
  }

 private:
  std::int64_t seen_;
  models::Step step_;
  Tensor room_, logits_;
  at::cuda::CUDAGraph graph_;
  models::cuda::StepNotes notes_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace

void print_one_kernel(const inference::StepGraphs::Work& work, const at::TensorOptions& compute,
                      std::int64_t rows, std::int64_t seen, std::int64_t places, double weights) {
  Steps steps(work, compute, rows, seen, places);
  std::vector<Variant> variants;
  variants.push_back({.name = "graph", .program = nullptr});
  const auto add = [&](const std::string& name, StepTuning tuning) {
    tuning.most_rows = static_cast<int>(rows);
    auto program = StepProgram::of(steps.notes(), tuning);
    if (!program)
      fmt::print("  {}: no kernel for {} instructions\n", name, steps.notes().instructions.size());
    else
      variants.push_back({.name = name, .program = std::move(program)});
  };
  for (const int depth : {6, 4})
    for (const int asked : {4, 6, 8, 12})
      add(fmt::format("rings of {}, {} asked", depth, asked), {.most_depth = depth, .most_asked = asked});
  add("parts joined first", {.joins_in_products = false});
  const auto expected = steps.results(variants.front());
  for (Variant& variant : variants) {
    const auto results = steps.results(variant);
    variant.is_same = at::equal(results.first, expected.first) && at::equal(results.second, expected.second);
  }
  for (int round = 0; round < kRounds; ++round) {
    for (Variant& variant : variants) variant.times.push_back(steps.time(variant));
  }
  fmt::print("  {:<22} {:>9} {:>9} {:>9} {:>7} {:>9} {:>6} {:>6}\n", "steps of 4", "us a step", "least",
             "most", "TB/s", "barriers", "depth", "same");
  for (const Variant& variant : variants) {
    const auto [least, most] = std::ranges::minmax(variant.times);
    fmt::print("  {:<22} {:>9.1f} {:>9.1f} {:>9.1f} {:>7.2f} {:>9} {:>6} {:>6}\n", variant.name,
               variant.median(), least, most, weights / variant.median() / 1e6,
               variant.program ? variant.program->barriers() : 0,
               variant.program ? variant.program->depth() : 0, variant.is_same ? "yes" : "no");
  }
}

}  // namespace twobw
