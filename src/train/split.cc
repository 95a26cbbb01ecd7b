#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <thread>

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

double median_seconds(int rounds, const std::function<void()>& work) {
  work();  // warm-up
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) times.push_back(seconds_of(work));
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[rounds / 2];
}

// Seconds that one update takes in this layer: m forwards and backwards, and the step.
double layer_cost(const Setup& setup, int index) {
  const Config& config = setup.config;
  const models::Layer& layer = *setup.model[index];
  const weights::Layout layout(setup.model, index, index + 1);
  weights::Versions versions(layout, 1, config.train.seed);
  const weights::Gradients gradients(layout, 1);
  gradients.attach(0, versions.parameters(0));
  optim::Optimizer optimizer(config.optimizer, layout, 0, versions.flat(0));

  const int b = config.pipeline.microbatch, length = config.model.context;
  const data::Sample sample = setup.training->random(0, b, length);
  models::Pass pass{.tokens = sample.tokens, .targets = sample.targets, .training = true, .layer = index};
  at::Tensor input;
  if (index > 0) input = at::randn({b, length, config.model.width}).set_requires_grad(true);
  const double compute = median_seconds(5, [&] {
    const at::Tensor output = layer.forward(versions.parameters(0), input, pass);
    torch::autograd::backward({output}, {output.dim() == 0 ? at::Tensor() : at::ones_like(output)});
  });
  const double step = median_seconds(3, [&] {
    optimizer.apply({.learning_rate = 0.0}, gradients.flat(0), versions.flat(0), versions.flat(0));
  });
  return compute * config.pipeline.microbatches + step;
}

}  // namespace

void choose_split(Setup& setup) {
  if (!setup.split.empty()) return;
  const int layers = static_cast<int>(setup.model.size());
  if (setup.spec.stages == 1) {
    setup.split = {layers};
    return;
  }
  std::vector<double> costs(layers);
  // On a thread of its own: the binding to cores and the count of intra-op threads stay with it.
  std::thread([&] {
    device::bind_thread("measure", setup.cores[0]);
    std::map<std::string, double> by_kind;
    for (int index = 0; index < layers; ++index) {
      const std::string kind = setup.model[index]->kind();
      if (!by_kind.contains(kind)) by_kind[kind] = layer_cost(setup, index);
      costs[index] = by_kind[kind];
    }
  }).join();
  setup.split = balance(costs, setup.spec.stages);
  setup.layer_seconds = std::move(costs);
}

}  // namespace twobw::train
