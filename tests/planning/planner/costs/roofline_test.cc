#include "planning/planner/costs/roofline.h"

#include "core/base/kinds.h"
#include "planning/planner/costs/state_bytes.h"
#include "tests/planning/planner/planner_testing.h"

namespace twobw::planner {
namespace {

const DeviceKind kDevice = {.name = "x",
                            .memory = 1e9,
                            .memory_bandwidth = 1e9,
                            .efficiency = 0.5,
                            .overhead = 1e-3,
                            .rates = {{"fp32", 1e12}, {"fp16", 4e12}}};
const StateBytes kState;  // fp32 with AdamW

// Costs of one layer, from its parameters and its work per sequence.
CostColumn column(const architecture::Work& work, std::int64_t parameters, const std::string& precision,
                  int b) {
  const architecture::Layer layer{
      .kind = "x",
      .parameters = {{.name = "p", .shape = {parameters}}},
      .work = [work](const architecture::Extent& extent) { return work.times(extent.sequences); }};
  return modelled_costs({layer}, kDevice, precision, kState, 16, {b}).columns.at(0);
}

TEST(Modelled, ComputingBoundsALayerWithManyOperations) {
  const architecture::Work work{.matrix_flops = 1e11, .matrix_bytes = 1000};
  const LayerCost cost = column(work, 1000, "fp32", 4).layers[0];
  EXPECT_DOUBLE_EQ(cost.forward, 4 * 1e11 / (1e12 * 0.5) + 1e-3);
  EXPECT_DOUBLE_EQ(cost.backward, 2 * 4 * 1e11 / (1e12 * 0.5) + 2e-3);
  EXPECT_DOUBLE_EQ(column(work, 1000, "fp16", 4).layers[0].forward, 4 * 1e11 / (4e12 * 0.5) + 1e-3);
}

TEST(Modelled, MemoryBoundsALayerWithFew) {
  const architecture::Work work{.matrix_flops = 1, .matrix_bytes = 3e6};
  const LayerCost cost = column(work, 1000000, "fp32", 2).layers[0];
  EXPECT_DOUBLE_EQ(cost.forward, (2 * 3e6 + 4e6) / 1e9 + 1e-3);             // weights are read once
  EXPECT_DOUBLE_EQ(cost.backward, (4 * 3e6 + 4e6 + 2 * 4e6) / 1e9 + 2e-3);  // and their gradient both ways
}

TEST(Modelled, WorkOtherThanProductsComesOnTop) {
  const architecture::Work work{.matrix_flops = 1e11, .element_bytes = 5e6};
  EXPECT_DOUBLE_EQ(column(work, 0, "fp32", 2).layers[0].forward, 2e11 / 5e11 + 1e7 / 1e9 + 1e-3);
}

TEST(Modelled, BytesGrowWithTheMicrobatch) {
  const architecture::Work work{.saved_bytes = 7, .output = 5, .working = 3};
  const CostColumn of_four = column(work, 0, "fp32", 4);
  EXPECT_EQ(of_four.layers[0].saved_bytes, 28);
  EXPECT_EQ(of_four.layers[0].output, 20);
  EXPECT_EQ(of_four.layers[0].working, 12);
  EXPECT_EQ(of_four.tokens, 4 * 8 * 16);
}

TEST(Modelled, AStepReadsAndWritesAllState) {
  const CostTable table = modelled_costs({}, kDevice, "fp32", kState, 16, {1, 2, 4});
  EXPECT_TRUE(table.modelled);
  EXPECT_EQ(table.columns.size(), 3u);
  EXPECT_DOUBLE_EQ(table.step_per_parameter, 2 * (4 + 4 + 8) / 1e9);
}

TEST(Modelled, APredictionReadsTheStateAndTheTrueWeightsAndWritesWhatIsComputedWith) {
  const CostTable fp32 = modelled_costs({}, kDevice, "fp32", kState, 16, {1});
  EXPECT_DOUBLE_EQ(fp32.predict_per_parameter, (4 + 4 + 8 + 4) / 1e9);
  const CostTable bf16 = modelled_costs({}, kDevice, "fp16", {2, 4, 4, 8}, 16, {1});
  EXPECT_DOUBLE_EQ(bf16.predict_per_parameter, (4 + 4 + 8 + 2) / 1e9);
}

TEST(Modelled, ADeviceOfUnknownFiguresIsRefused) {
  const auto complaint = [](const DeviceKind& device) {
    return refusal_of([&] { modelled_costs({}, device, "fp32", kState, 16, {1}); });
  };
  EXPECT_EQ(complaint({.name = "x"}),
            "the rate of device 'x' is not known, so its times cannot be modelled; give its tflops and "
            "memory_bandwidth, or a profile");
  EXPECT_EQ(complaint({.name = "x", .flops = 1}),
            "the memory bandwidth of device 'x' is not known, so its times cannot be modelled; give its "
            "memory_bandwidth, or a profile");
}

TEST(Modelled, ALayerWhoseWorkIsNotDescribedNeedsAProfile) {
  EXPECT_EQ(refusal_of([] { modelled_costs({{.kind = "x"}}, kDevice, "fp32", kState, 16, {1}); }),
            "the layer x has no description of its work, so its times cannot be modelled; give a profile");
}

TEST(Precision, StateIsWhatTheOptimizerKeeps) {
  const auto bytes = [](const OptimizerConfig& config, const char* precision, bool predicts) {
    const StateBytes state = state_bytes(config, precision, predicts);
    return std::vector<double>{state.weights, state.master, state.gradients, state.optimizer};
  };
  OptimizerConfig config;
  EXPECT_EQ(bytes(config, "fp32", false), (std::vector<double>{4, 0, 4, 8}));
  EXPECT_EQ(bytes(config, "bf16", false), (std::vector<double>{2, 4, 4, 8}));
  EXPECT_EQ(bytes(config, "fp32", true), (std::vector<double>{4, 4, 4, 8}));
  EXPECT_EQ(bytes(config, "bf16", true), (std::vector<double>{2, 4, 4, 8}));
  config.name = "lion";
  EXPECT_EQ(bytes(config, "fp32", false), (std::vector<double>{4, 0, 4, 4}));
  EXPECT_EQ(refusal_of([] { bytes_per_element("fp8"); }),
            "the precision is 'fp8'; allowed: fp32, fp16, bf16");
}

// In fp32 the weights to compute with are the true ones, but where they are predicted.
TEST(Precision, OnlyAScheduleThatPredictsKeepsAMasterInFp32) {
  Config config;
  for (const ScheduleKind kind : all_kinds()) {
    config.pipeline.schedule = kind;
    config.pipeline.predict = true;
    EXPECT_EQ(state_bytes(config).master, kind == ScheduleKind::TwoBW ? 4 : 0) << name(kind);
    config.pipeline.predict = false;
    EXPECT_EQ(state_bytes(config).master, 0) << name(kind);
  }
}

}  // namespace
}  // namespace twobw::planner
