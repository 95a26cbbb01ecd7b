// A family defined outside the library, from its description to a trained model, with public headers only.
// Its blocks x + scale * narrow(gelu(widen(x))) are two layers each, so that a stage boundary may lie within
// a residual branch.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "app/inference/generation.h"
#include "app/measure/profiler.h"
#include "app/train/trainer.h"
#include "app/train/verify.h"
#include "engine/device/device.h"
#include "engine/models/model.h"
#include "engine/models/ops.h"
#include "engine/runtime/setup.h"
#include "planning/architecture/families.h"
#include "planning/planner/costs/cost_tables.h"
#include "planning/planner/search/configuration.h"
#include "planning/planner/search/search.h"

namespace twobw {
namespace {

using architecture::Extent;
using architecture::Field;
using architecture::Layer;
using architecture::Parameter;
using architecture::Work;

constexpr int kWiden = 3;  // times the width

// A layer's work, from `stream`, the bytes of the hidden states, and the operations of a square product.
template <typename Amounts>
std::function<Work(const Extent&)> work_of(const ModelConfig& config, Amounts amounts) {
  return [width = config.width, amounts](const Extent& extent) {
    const double tokens = extent.sequences * extent.context;
    return amounts(tokens * width * extent.element, 2 * tokens * width * width);
  };
}

Layer embedding_layer(const ModelConfig& config) {
  return {.kind = "residual_embedding",
          .parameters = {{.name = "tokens", .shape = {config.vocab, config.width}, .init_std = 0.1}},
          .takes = {Field::Tokens},
          .work = work_of(config, [](double stream, double) {
            return Work{.element_bytes = 2 * stream,
                        .saved_bytes = stream,
                        .kept = stream,
                        .output = stream,
                        .working = stream};
          })};
}

Layer widen_layer(const ModelConfig& config, const std::string& block) {
  const std::int64_t width = config.width;
  return {.kind = "residual_widen",
          .parameters = {{.name = block + "widen.weight", .shape = {kWiden * width, width}, .init_std = 0.1},
                         {.name = block + "widen.bias", .shape = {kWiden * width}, .decay = false}},
          .work = work_of(config, [](double stream, double square) {
            return Work{.matrix_flops = kWiden * square,
                        .matrix_bytes = (1 + kWiden) * stream,
                        .saved_bytes = kWiden * stream,  // gelu's input
                        .kept = kWiden * stream,
                        .output = (kWiden + 1) * stream,
                        .working = (kWiden + 2) * stream};
          })};
}

Layer narrow_layer(const ModelConfig& config, const std::string& block) {
  const std::int64_t width = config.width;
  return {.kind = "residual_narrow",
          .parameters = {{.name = block + "narrow.weight", .shape = {width, kWiden * width}, .init_std = 0.1},
                         {.name = block + "scale", .shape = {width}, .init_mean = 0.5, .decay = false}},
          .work = work_of(config, [](double stream, double square) {
            return Work{
                .matrix_flops = kWiden * square,
                .matrix_bytes = (kWiden + 1) * stream,
                .element_bytes = (2 * kWiden + 5) * stream,
                .saved_bytes = (kWiden + 1 + 1) * stream,  // the outputs of gelu and narrow, and the sum
                .kept = stream,
                .output = stream,
                .working = (kWiden + 1) * stream};
          })};
}

Layer head_layer(const ModelConfig& config) {
  return {
      .kind = "residual_head",
      .parameters = {{.name = "head",
                      .shape = {config.vocab, config.width},
                      .init_std = 0.1,
                      .tied_to = config.tied ? "tokens" : ""}},
      .takes = architecture::kTokenLoss,
      .work = work_of(config, [per_width = 1.0 * config.vocab / config.width](double stream, double square) {
        const double logits = per_width * stream;
        return Work{.matrix_flops = per_width * square,
                    .matrix_bytes = stream + logits,
                    .element_bytes = 4 * logits,
                    .saved_bytes = logits,
                    .working = stream};
      })};
}

architecture::Model describe_residual(const ModelConfig& config) {
  architecture::Model model = {embedding_layer(config)};
  for (int block = 0; block < config.layers; ++block) {
    const std::string name = "blocks." + std::to_string(block) + ".";
    model.push_back(widen_layer(config, name));
    model.push_back(narrow_layer(config, name));
  }
  model.push_back(head_layer(config));
  return model;
}

// The third block uses the first one's weight: a tie in addition to that of embedding and head.
architecture::Model describe_shared(const ModelConfig& config) {
  architecture::Model model = describe_residual(config);
  model[5].parameters[0].tied_to = model[1].parameters[0].name;
  return model;
}

models::Tensors run_residual(const std::string& kind, std::span<const at::Tensor> p, const models::Tensors& x,
                             const models::MicrobatchContext& pass) {
  namespace ops = models::ops;
  if (kind == "residual_embedding") return {ops::embedding(p[0], pass.batch[Field::Tokens])};
  if (kind == "residual_widen") return {ops::linear(x[0], p[0], p[1]), x[0]};
  // The scale by LibTorch's own operators, whose gradients autograd finds.
  if (kind == "residual_narrow") return {x[1] + p[1] * ops::linear(ops::gelu(x[0]), p[0], {})};
  if (!pass.batch[Field::Targets].defined()) return {ops::linear(x[0], p[0], {})};
  return {
      ops::head_loss(x[0], p[0], {}, pass.batch[Field::Targets], pass.batch[Field::LossScale], pass.room)};
}

models::Forward forward_of_residual(const ModelConfig&, const Layer& layer) {
  return
      [kind = layer.kind](std::span<const at::Tensor> p, const models::Tensors& x,
                          const models::MicrobatchContext& pass) { return run_residual(kind, p, x, pass); };
}

class OwnFamily : public testing::Test {
 protected:
  static constexpr int kLayers = 8;  // embedding, 3 x (widen, narrow), head

  static void SetUpTestSuite() {
    device::initialize();
    static const bool added = [] {
      models::add_family({.name = "residual", .describe = describe_residual}, forward_of_residual);
      models::add_family({.name = "shared", .describe = describe_shared}, forward_of_residual);
      return true;
    }();
    ASSERT_TRUE(added);
  }

  OwnFamily() {
    config_.model = {.family = "residual", .layers = 3, .width = 16, .vocab = 40, .context = 8};
    config_.pipeline.stages = 2;
    config_.pipeline.microbatch = 2;
    config_.pipeline.microbatches = 4;
    config_.optimizer.lr = 1e-2;
    config_.optimizer.warmup = 2;
    config_.train.updates = 6;
    config_.train.eval_every = 3;
    config_.train.eval_microbatches = 2;
  }

  // Two devices of one machine, with round numbers.
  static planner::Cluster two_devices() {
    return {.kinds = {{.name = "small", .memory = 1e9, .flops = 1e10, .memory_bandwidth = 1e10}},
            .nodes = {{.islands = {{.kind = 0, .count = 2}}, .link = {.latency = 1e-6, .bandwidth = 1e9}}},
            .network = planner::kNoLink};
  }

  // The best plan of two stages.
  planner::Plan plan_from(const std::vector<planner::CostTable>& costs) const {
    planner::Problem problem = planner::problem_of(config_, two_devices(), costs);
    problem.fixed.stages = 2;
    problem.fixed.microbatch = config_.pipeline.microbatch;
    const planner::SearchResult result = planner::search(problem);
    EXPECT_TRUE(result.best);
    return result.best ? result.best->plan : planner::Plan{};
  }

  static void expect_two_whole_stages(const planner::Plan& plan) {
    ASSERT_EQ(plan.stages.size(), 2u);
    EXPECT_EQ(plan.stages[0].first_layer, 0);
    EXPECT_GT(plan.stages[0].last_layer, 0);
    EXPECT_EQ(plan.stages[1].first_layer, plan.stages[0].last_layer);
    EXPECT_LT(plan.stages[1].first_layer, kLayers);
    EXPECT_EQ(plan.stages[1].last_layer, kLayers);
    EXPECT_GT(plan.tokens_per_s, 0);
  }

  static void expect_exact(const Config& config) {
    const train::Verification result = train::verify(config);
    EXPECT_TRUE(result.equal) << result.difference << "\n" << to_yaml(config);
    EXPECT_EQ(result.skipped, 0);
    EXPECT_TRUE(std::isfinite(result.final_loss));
  }

  Config config_;
};

TEST_F(OwnFamily, IsFoundByItsName) {
  const architecture::Model model = architecture::model_of(config_.model);
  EXPECT_EQ(architecture::describe(model),
            "8 layers: residual_embedding, 3 x (residual_widen, residual_narrow), residual_head");
  EXPECT_EQ(architecture::parameter_count(model), 40 * 16 + 3 * (2 * 3 * 16 * 16 + 3 * 16 + 16));
  EXPECT_EQ(models::build(config_.model).forwards.size(), model.size());
}

TEST_F(OwnFamily, IsProfiledAndPlannedFromThat) {
  const runtime::Setup setup = runtime::prepare(config_);
  const planner::Profile profile =
      measure::profile(setup, measure::profiled_devices(setup), {.sizes = {2}, .rounds = 1, .link = false});
  EXPECT_EQ(profile.layers, architecture::kinds_of(setup.model.layers));
  for (const Layer& layer : setup.model.layers) {
    const planner::KindTimes& measured = profile.kinds.at(layer.kind).times.at(0);
    const Work described = layer.work({.sequences = 2, .context = 8, .element = 4});
    EXPECT_EQ(measured.output, described.output) << layer.kind;
    EXPECT_EQ(measured.kept, described.kept) << layer.kind;
    // Up to the loss and the gradient of a bias.
    EXPECT_NEAR(measured.saved_bytes / described.saved_bytes, 1, 0.05) << layer.kind;
    EXPECT_NEAR(measured.working / described.working, 1, 0.05) << layer.kind;
  }
  const planner::Plan plan = plan_from(planner::measured_tables(config_, two_devices(), profile));
  EXPECT_FALSE(plan.modelled);
  expect_two_whole_stages(plan);
}

TEST_F(OwnFamily, IsTheOracleBitForBitWhereverItIsCut) {
  for (const ScheduleKind schedule : {ScheduleKind::TwoBW, ScheduleKind::Flush}) {
    config_.pipeline.schedule = schedule;
    for (int first = 1; first < kLayers; ++first) {
      config_.pipeline.split = {first, kLayers - first};
      config_.model.tied = first % 2 == 0;
      expect_exact(config_);
    }
  }
}

TEST_F(OwnFamily, MayTieSeveralWeights) {
  config_.model.family = "shared";
  config_.optimizer.clip = 0.5;
  for (const std::vector<int>& split : {std::vector<int>{2, 3, 3}, {1, 4, 3}, {4, 1, 3}, {6, 1, 1}}) {
    config_.pipeline.stages = static_cast<int>(split.size());
    config_.pipeline.split = split;
    for (const ScheduleKind schedule : {ScheduleKind::TwoBW, ScheduleKind::Flush}) {
      config_.pipeline.schedule = schedule;
      config_.pipeline.replicas = split[0] == 2 ? 2 : 1;
      expect_exact(config_);
    }
    config_.pipeline.schedule = ScheduleKind::TwoBW;
    config_.pipeline.replicas = 1;
    config_.pipeline.defer_tied_update =
        true;  // the first stage steps late: of ties within it, of one to it, of none
    expect_exact(config_);
    config_.pipeline.defer_tied_update = false;
  }
}

TEST_F(OwnFamily, TrainsAsPlannedAndComesBackFromItsFile) {
  const planner::Plan plan = plan_from(planner::modelled_tables(config_, two_devices(), {2}));
  Config config = planner::with_plan(config_, plan, {});
  EXPECT_EQ(config.pipeline.stages, 2);
  expect_exact(config);

  const std::filesystem::path directory =
      std::filesystem::path(testing::TempDir()) / ("twobw_family_" + std::to_string(getpid()));
  config.run_dir = directory;
  const train::Outcome outcome = train::train(config);
  EXPECT_EQ(outcome.summary.at("updates"), 6);
  EXPECT_EQ(outcome.summary.at("skipped_updates"), 0);
  EXPECT_TRUE(std::isfinite(outcome.summary.at("loss").get<double>()));
  EXPECT_TRUE(std::isfinite(outcome.summary.at("validation_loss").get<double>()));
  EXPECT_TRUE(std::filesystem::exists(directory / "model" / "model.safetensors"));

  // The family has no decoding steps, so each token recomputes the whole sequence.
  const inference::ModelSource source = inference::find_model(directory, {});
  const auto generated = inference::generate(source, nullptr, {{.ids = {0, 1, 2, 3, 4}}}, {.tokens = 3});
  ASSERT_EQ(generated.size(), 1);
  EXPECT_EQ(generated[0].ids.size(), 3);
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace twobw
