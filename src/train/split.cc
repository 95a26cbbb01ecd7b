#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <limits>
#include <map>

#include "base/error.h"
#include "optim/optimizer.h"
#include "train/setup.h"
#include "weights/gradients.h"
#include "weights/versions.h"

namespace twobw::train {

std::vector<int> balance(const std::vector<double>& costs, int stages) {
  const int layers = static_cast<int>(costs.size());
  TWOBW_ASSERT(stages >= 1 && stages <= layers, "{} stages for {} layers", stages, layers);
  std::vector<double> before(layers + 1, 0.0);
  for (int i = 0; i < layers; ++i) before[i + 1] = before[i] + costs[i];

  // worst[s][n]: the smallest possible largest part when the first n layers make s stages.
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector worst(stages + 1, std::vector(layers + 1, infinity));
  std::vector cut(stages + 1, std::vector(layers + 1, 0));
  worst[0][0] = 0.0;
  for (int s = 1; s <= stages; ++s) {
    for (int n = s; n <= layers; ++n) {
      for (int c = s - 1; c < n; ++c) {
        const double value = std::max(worst[s - 1][c], before[n] - before[c]);
        if (value < worst[s][n]) {
          worst[s][n] = value;
          cut[s][n] = c;
        }
      }
    }
  }
  std::vector<int> split(stages);
  for (int s = stages, n = layers; s >= 1; n = cut[s][n], --s) split[s - 1] = n - cut[s][n];
  return split;
}

namespace {

using Clock = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// One kind of layer, ready to be timed by itself: its weights, a gradient buffer, example inputs.
class Bench {
 public:
  Bench(const Setup& setup, int index, const models::Tensors& inputs)
      : layer_(*setup.model[index]),
        layout_(setup.model, index, index + 1),
        versions_(layout_, 1, setup.config.train.seed),
        gradients_(layout_, 1),
        optimizer_(setup.config.optimizer, layout_, 0, versions_.flat(0)) {
    gradients_.attach(0, versions_.parameters(0));
    const data::Sample sample =
        setup.training->random(0, setup.config.pipeline.microbatch, setup.config.model.context);
    pass_ = {.tokens = sample.tokens, .targets = sample.targets, .training = true, .layer = index};
    for (const at::Tensor& input : inputs) inputs_.push_back(input.detach().set_requires_grad(true));
  }

  models::Tensors run() {
    const models::Tensors outputs = layer_.forward(versions_.parameters(0), inputs_, pass_);
    models::Tensors ones;
    for (const at::Tensor& output : outputs) ones.push_back(at::ones_like(output));
    torch::autograd::backward(outputs, ones);
    return outputs;
  }

  // Keeps the quickest of several rounds: whatever else goes on only ever makes them slower.
  void time_round() {
    compute_ = std::min(compute_, seconds_of([&] { run(); }));
    step_ = std::min(step_, seconds_of([&] {
                       optimizer_.apply({.learning_rate = 0.0}, gradients_.flat(0), versions_.flat(0),
                                        versions_.flat(0));
                     }));
  }

  double seconds_per_update(int microbatches) const { return compute_ * microbatches + step_; }

 private:
  const models::Layer& layer_;
  weights::Layout layout_;
  weights::Versions versions_;
  weights::Gradients gradients_;
  optim::Optimizer optimizer_;
  models::Pass pass_;
  models::Tensors inputs_;
  double compute_ = std::numeric_limits<double>::infinity();
  double step_ = std::numeric_limits<double>::infinity();
};

// Seconds that one update takes in each layer. Layers of one kind are timed once; the kinds take turns.
std::vector<double> time_layers(const Setup& setup) {
  constexpr int kRounds = 8;
  std::map<std::string, std::unique_ptr<Bench>> benches;
  std::map<std::string, models::Tensors> outputs;
  models::Tensors inputs;
  for (int index = 0; index < static_cast<int>(setup.model.size()); ++index) {
    const std::string kind = setup.model[index]->kind();
    if (!benches.contains(kind)) {
      benches[kind] = std::make_unique<Bench>(setup, index, inputs);
      outputs[kind] = benches[kind]->run();
    }
    inputs = outputs[kind];
  }
  for (int round = 0; round < kRounds; ++round) {
    for (auto& [kind, bench] : benches) bench->time_round();
  }
  std::vector<double> seconds;
  for (const auto& layer : setup.model) {
    seconds.push_back(benches.at(layer->kind())->seconds_per_update(setup.spec.microbatches));
  }
  return seconds;
}

}  // namespace

void choose_split(Setup& setup) {
  if (!setup.split.empty()) return;
  const int layers = static_cast<int>(setup.model.size());
  if (setup.spec.stages == 1) {
    setup.split = {layers};
    return;
  }
  // On a thread of its own: the binding to cores and the count of intra-op threads stay with it.
  auto measured = std::async(std::launch::async, [&] {
    device::bind_thread("measure", setup.cores[0]);
    return time_layers(setup);
  });
  try {
    setup.layer_seconds = measured.get();
  } catch (const std::bad_alloc&) {
    fail_run("the model is too large: out of memory while its layers were measured");
  }
  setup.split = balance(setup.layer_seconds, setup.spec.stages);
}

}  // namespace twobw::train
