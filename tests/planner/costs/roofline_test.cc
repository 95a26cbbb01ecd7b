#include "planner/costs/roofline.h"

#include "planner/costs/state_bytes.h"
#include "planner_testing.h"

namespace twobw::planner {
namespace {

const DeviceKind kDevice = {.name = "x",
                            .memory = 1e9,
                            .memory_bandwidth = 1e9,
                            .efficiency = 0.5,
                            .overhead = 1e-3,
                            .rates = {{"fp32", 1e12}, {"fp16", 4e12}}};
const StateBytes kState;  // fp32 with AdamW

CostColumn column(const LayerWork& layer, const std::string& precision, int b) {
  return modelled_costs({layer}, kDevice, precision, kState, 16, {b}).columns.at(0);
}

TEST(Modelled, ComputingBoundsALayerWithManyOperations) {
  const LayerWork layer{.kind = "x", .parameters = 1000, .matrix_flops = 1e11, .matrix_bytes = 1000};
  const LayerCost cost = column(layer, "fp32", 4).layers[0];
  EXPECT_DOUBLE_EQ(cost.forward, 4 * 1e11 / (1e12 * 0.5) + 1e-3);
  EXPECT_DOUBLE_EQ(cost.backward, 2 * 4 * 1e11 / (1e12 * 0.5) + 2e-3);
  EXPECT_DOUBLE_EQ(column(layer, "fp16", 4).layers[0].forward, 4 * 1e11 / (4e12 * 0.5) + 1e-3);
}

TEST(Modelled, MemoryBoundsALayerWithFew) {
  const LayerWork layer{.kind = "x", .parameters = 1e6, .matrix_flops = 1, .matrix_bytes = 3e6};
  const LayerCost cost = column(layer, "fp32", 2).layers[0];
  EXPECT_DOUBLE_EQ(cost.forward, (2 * 3e6 + 4e6) / 1e9 + 1e-3);             // weights are read once
  EXPECT_DOUBLE_EQ(cost.backward, (4 * 3e6 + 4e6 + 2 * 4e6) / 1e9 + 2e-3);  // and their gradient both ways
}

TEST(Modelled, WorkOtherThanProductsComesOnTop) {
  const LayerWork layer{.kind = "x", .matrix_flops = 1e11, .element_bytes = 5e6};
  EXPECT_DOUBLE_EQ(column(layer, "fp32", 2).layers[0].forward, 2e11 / 5e11 + 1e7 / 1e9 + 1e-3);
}

TEST(Modelled, BytesGrowWithTheMicrobatch) {
  const LayerWork layer{.kind = "x", .stash = 7, .output = 5, .working = 3};
  const CostColumn of_four = column(layer, "fp32", 4);
  EXPECT_EQ(of_four.layers[0].stash, 28);
  EXPECT_EQ(of_four.layers[0].output, 20);
  EXPECT_EQ(of_four.layers[0].working, 12);
  EXPECT_EQ(of_four.tokens, 4 * 2 * 8 * 16);
}

TEST(Modelled, AStepReadsAndWritesAllState) {
  const CostTable table = modelled_costs({}, kDevice, "fp32", kState, 16, {1, 2, 4});
  EXPECT_TRUE(table.modelled);
  EXPECT_EQ(table.columns.size(), 3u);
  EXPECT_DOUBLE_EQ(table.step_per_parameter, 2 * (4 + 4 + 8) / 1e9);
}

TEST(Modelled, ADeviceOfUnknownFiguresIsRefused) {
  const auto complaint = [](const DeviceKind& device) {
    return refusal([&] { modelled_costs({}, device, "fp32", kState, 16, {1}); });
  };
  EXPECT_EQ(complaint({.name = "x"}),
            "the rate of device 'x' is not known, so its times cannot be modelled; give its tflops and "
            "memory_bandwidth, or a profile");
  EXPECT_EQ(complaint({.name = "x", .flops = 1}),
            "the memory bandwidth of device 'x' is not known, so its times cannot be modelled; give its "
            "memory_bandwidth, or a profile");
}

// Six operations a parameter and token for forward and backward together, the usual rule; the head counts,
// the embedding does not, and attention comes on top.
TEST(Modelled, GptCountsTheUsualNumberOfOperations) {
  const ModelConfig model{
      .layers = 24, .width = 1024, .heads = 16, .vocab = 50304, .context = 512, .tied = false};
  double flops = 0, parameters = 0;
  for (const LayerWork& layer : describe_gpt(model, 4)) {
    flops += layer.matrix_flops;
    if (layer.kind != "embedding") parameters += layer.parameters;
  }
  const double attention = 24 * 2.0 * 512 * 512 * 1024;
  EXPECT_NEAR(flops / (2 * parameters * 512 + attention), 1, 0.002);
}

TEST(Modelled, HalfThePrecisionIsAboutHalfTheBytes) {
  const ModelConfig model{.layers = 1, .width = 1024, .heads = 16, .vocab = 1000, .context = 512};
  const auto whole = describe_gpt(model, 4), half = describe_gpt(model, 2);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(whole[i].matrix_flops, half[i].matrix_flops);
    EXPECT_EQ(whole[i].output, 2 * half[i].output);
    EXPECT_NEAR(whole[i].stash / half[i].stash, 2, 0.02) << whole[i].kind;
  }
}

TEST(Modelled, AFamilyThatNobodyDescribedIsRefused) {
  EXPECT_EQ(refusal([] { describe_model({.family = "bert"}, 4); }), "model.family is 'bert'; allowed: gpt");
}

TEST(Precision, StateIsWhatTheOptimizerKeeps) {
  const auto bytes = [](const OptimizerConfig& config, const char* precision, bool delayed) {
    const StateBytes state = state_bytes(config, precision, delayed);
    return std::vector<double>{state.weights, state.master, state.gradients, state.optimizer};
  };
  OptimizerConfig config;
  EXPECT_EQ(bytes(config, "fp32", true), (std::vector<double>{4, 0, 4, 8}));
  EXPECT_EQ(bytes(config, "bf16", true), (std::vector<double>{2, 4, 4, 8}));
  config.extrapolate_weights = {1};
  config.extrapolate_update = {1, -0.5};
  EXPECT_EQ(bytes(config, "fp32", true), (std::vector<double>{4, 4, 4, 16}));
  EXPECT_EQ(bytes(config, "fp32", false), (std::vector<double>{4, 0, 4, 8}));
  config.name = "sgd";
  config.extrapolate_weights = {1, 2};
  EXPECT_EQ(bytes(config, "bf16", true), (std::vector<double>{2, 4, 4, 16}));
  EXPECT_EQ(refusal([] { bytes_per_element("fp8"); }), "the precision is 'fp8'; allowed: fp32, fp16, bf16");
}

}  // namespace
}  // namespace twobw::planner
