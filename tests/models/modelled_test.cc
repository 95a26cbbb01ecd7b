// The planner's description of the layers, held against the layers.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <numeric>

#include "device/cpu.h"
#include "device/memory.h"
#include "models/model.h"
#include "planner/modelled.h"
#include "tensors.h"

namespace twobw::models {
namespace {

using at::Tensor;
using planner::LayerWork;

constexpr double kFloat = 4;

// Large enough that a handful of bytes here and there (a loss, a seed) does not count.
ModelConfig example(double dropout) {
  return {.layers = 1, .width = 192, .heads = 4, .vocab = 500, .context = 64, .dropout = dropout};
}

double elements(const ParameterSpec& parameter) {
  return std::accumulate(parameter.shape.begin(), parameter.shape.end(), 1.0, std::multiplies<>());
}

// Weights with a gradient each, as in a run.
std::vector<Tensor> weights_of(const Layer& layer) {
  std::vector<Tensor> weights;
  for (const ParameterSpec& parameter : layer.parameters()) {
    weights.push_back(leaf(normal(parameter.shape, 1)));
    weights.back().mutable_grad() = at::zeros(parameter.shape);
  }
  return weights;
}

// What a forward left in use, and how much more was in use for a while.
struct Memory {
  double stash = 0, working = 0, output = 0;
  Tensors outputs;
};

Memory measure(const Layer& layer, const Tensors& from, const Pass& pass) {
  const std::vector<Tensor> weights = weights_of(layer);
  Tensors inputs;
  for (const Tensor& input : from) inputs.push_back(leaf(input));
  device::MemoryPool pool;
  device::PoolScope scope(pool);
  Memory memory;
  memory.outputs = layer.forward(weights, inputs, pass);
  memory.stash = static_cast<double>(pool.live_bytes());
  memory.working = static_cast<double>(pool.peak_bytes()) - memory.stash;
  pool.reset_peak();
  Tensors gradients;
  for (const Tensor& output : memory.outputs) {
    memory.output += output.dim() == 0 ? 0 : static_cast<double>(output.nbytes());
    gradients.push_back(at::ones_like(output));
  }
  const Tensors outputs = memory.outputs;
  torch::autograd::backward(outputs, std::exchange(gradients, {}));
  memory.working = std::max(memory.working, static_cast<double>(pool.peak_bytes()) - memory.stash);
  return memory;
}

class Described : public testing::TestWithParam<std::tuple<int, double>> {
 protected:
  static void SetUpTestSuite() { device::initialize(); }
};

TEST_P(Described, LayersKeepHandOnAndUseWhatTheyDo) {
  const auto [b, dropout] = GetParam();
  const ModelConfig config = example(dropout);
  const LayerList model = build(config);
  const std::vector<LayerWork> described = planner::describe_model(config, kFloat);
  ASSERT_EQ(described.size(), model.size());
  Pass pass{.tokens = random_tokens({b, config.context}, config.vocab, 1),
            .targets = random_tokens({b, config.context}, config.vocab, 2),
            .training = true};
  Tensors inputs;
  for (std::size_t i = 0; i < model.size(); ++i) {
    pass.layer = static_cast<int>(i);
    const Memory memory = measure(*model[i], inputs, pass);
    EXPECT_EQ(memory.output, b * described[i].output) << described[i].kind;
    EXPECT_NEAR(memory.stash / (b * described[i].stash), 1, 0.01) << described[i].kind;
    const double working = memory.working / (b * described[i].working);
    EXPECT_GT(working, 0.6) << described[i].kind;
    EXPECT_LT(working, 1.05) << described[i].kind;
    inputs = memory.outputs;
  }
}

INSTANTIATE_TEST_SUITE_P(Gpt, Described, testing::Combine(testing::Values(2, 4), testing::Values(0.0, 0.1)));

TEST(Described, KindsAndParametersAreTheModels) {
  for (const bool tied : {true, false}) {
    const ModelConfig config{.layers = 3, .width = 48, .heads = 4, .vocab = 77, .context = 20, .tied = tied};
    const LayerList model = build(config);
    const std::vector<LayerWork> described = planner::describe_model(config, kFloat);
    ASSERT_EQ(described.size(), model.size());
    double once = 0;
    for (std::size_t i = 0; i < model.size(); ++i) {
      EXPECT_EQ(described[i].kind, model[i]->kind());
      double parameters = 0, copies = 0;
      for (const ParameterSpec& parameter : model[i]->parameters()) {
        parameters += elements(parameter);
        if (!parameter.tied_to.empty()) copies += elements(parameter);
      }
      EXPECT_EQ(described[i].parameters, parameters) << described[i].kind;
      const bool both_ends = i == 0 && tied;  // the embedding is what the head's copy is tied to
      EXPECT_EQ(described[i].tied, both_ends ? described.back().tied : copies) << described[i].kind;
      once += parameters - copies;
    }
    EXPECT_EQ(once, static_cast<double>(parameter_count(model)));
  }
}

}  // namespace
}  // namespace twobw::models
