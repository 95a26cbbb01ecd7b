// The planner's description of the layers, held against the layers; what they keep is held against a
// profile (tests/train/profiler_test.cc).
#include <gtest/gtest.h>

#include <numeric>

#include "models/model.h"
#include "planner/costs/roofline.h"

namespace twobw::models {
namespace {

using planner::LayerWork;

constexpr double kFloat = 4;

double elements(const ParameterSpec& parameter) {
  return std::accumulate(parameter.shape.begin(), parameter.shape.end(), 1.0, std::multiplies<>());
}

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
