// The description of GPT-2; what its layers keep is held against a profile in
// tests/app/measure/profiler_test.cc.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "planning/architecture/families.h"
#include "planning/planner/costs/layer_costs.h"

namespace twobw::architecture {
namespace {

Work work_of(const Layer& layer, const ModelConfig& model, double element) {
  return layer.work({.context = static_cast<double>(model.context), .element = element});
}

// Six operations a parameter and token for forward and backward together, the usual rule; the head counts,
// the embedding does not, and attention comes on top.
TEST(DescribedGpt, CountsTheUsualNumberOfOperations) {
  const ModelConfig model{
      .layers = 24, .width = 1024, .heads = 16, .vocab = 50304, .context = 512, .tied = false};
  double flops = 0, parameters = 0;
  for (const Layer& layer : model_of(model)) {
    flops += work_of(layer, model, 4).matrix_flops;
    if (layer.kind != "embedding") parameters += parameter_count(layer);
  }
  const double attention = 24 * 2.0 * 512 * 512 * 1024;
  EXPECT_NEAR(flops / (2 * parameters * 512 + attention), 1, 0.002);
}

TEST(DescribedGpt, HalfThePrecisionIsAboutHalfTheBytes) {
  const ModelConfig model{.layers = 1, .width = 1024, .heads = 16, .vocab = 1000, .context = 512};
  for (const Layer& layer : model_of(model)) {
    const Work whole = work_of(layer, model, 4), half = work_of(layer, model, 2);
    EXPECT_EQ(whole.matrix_flops, half.matrix_flops);
    EXPECT_EQ(whole.output, 2 * half.output);
    EXPECT_NEAR(whole.saved_bytes / half.saved_bytes, 2, 0.02) << layer.kind;
  }
}

TEST(DescribedGpt, WorkGrowsWithTheMicrobatch) {
  const ModelConfig model{.layers = 1, .width = 64, .heads = 2, .vocab = 100, .context = 16};
  for (const Layer& layer : model_of(model)) {
    const Work one = layer.work({.sequences = 1, .context = 16}),
               four = layer.work({.sequences = 4, .context = 16});
    EXPECT_EQ(four.matrix_flops, 4 * one.matrix_flops);
    EXPECT_EQ(four.saved_bytes, 4 * one.saved_bytes);
  }
}

TEST(DescribedGpt, BothEndsOfATieSayHowMuchTheyShare) {
  for (const bool tied : {true, false}) {
    const ModelConfig config{.layers = 3, .width = 48, .heads = 4, .vocab = 77, .context = 20, .tied = tied};
    const Model model = model_of(config);
    const std::vector<planner::LayerShape> shapes = planner::shapes_of(model);
    double once = 0;
    for (std::size_t i = 0; i < model.size(); ++i) {
      const bool end = i == 0 || i + 1 == model.size();
      EXPECT_EQ(shapes[i].tied, tied && end ? 77 * 48 : 0) << model[i].kind;
      EXPECT_EQ(shapes[i].parameters, parameter_count(model[i]));
      once += shapes[i].parameters;
    }
    EXPECT_EQ(once - (tied ? 77 * 48 : 0), static_cast<double>(parameter_count(model)));
  }
}

// A stage gets what its layers take, and nothing else.
TEST(DescribedGpt, TokensAreForTheFirstLayerAndTargetsForTheLast) {
  const Model model = model_of({.layers = 2, .width = 16, .heads = 2});
  const int layers = static_cast<int>(model.size());
  EXPECT_EQ(taken_by(model, 0, 1), BatchFields{Field::Tokens});
  EXPECT_EQ(taken_by(model, layers - 1, layers), kTokenLoss);
  EXPECT_TRUE(taken_by(model, 1, layers - 1).empty());
  EXPECT_EQ(taken_by(model, 0, layers).count(3, 8), 2 * 3 * 8 + 1);
}

TEST(Families, AnUnknownOneIsRefusedWithTheKnownOnes) {
  try {
    model_of({.family = "gtp"});
    FAIL() << "not refused";
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()).find("model.family is 'gtp'; allowed: gpt"), 0u) << error.what();
  }
}

}  // namespace
}  // namespace twobw::architecture
