#include "engine/weights/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "toy_model.h"

namespace twobw::weights {
namespace {

constexpr std::int64_t kLine = 16;  // floats in a cache line

std::vector<std::string> names(const Layout& layout) {
  std::vector<std::string> names;
  for (const Parameter& parameter : layout.parameters()) names.push_back(parameter.spec.name);
  return names;
}

TEST(Layout, ParametersLieOneAfterAnotherOnCacheLines) {
  const Layout layout(toy_model(/*tied=*/false), 0, 4);
  std::int64_t free = 0;
  for (const Parameter& parameter : layout.parameters()) {
    EXPECT_EQ(parameter.offset % kLine, 0) << parameter.spec.name;
    EXPECT_GE(parameter.offset, free) << parameter.spec.name << " overlaps the one before";
    EXPECT_LT(parameter.offset - free, kLine) << parameter.spec.name << " leaves a hole";
    EXPECT_EQ(parameter.gradient_offset, parameter.offset);
    free = parameter.offset + parameter.count;
  }
  EXPECT_GE(layout.size(), free);
  EXPECT_EQ(layout.size() % kLine, 0);
  EXPECT_EQ(layout.gradient_size(), layout.size());
}

TEST(Layout, ALayerOwnsARangeOfTheParameters) {
  const architecture::Model model = toy_model();
  const Layout layout(model, 1, 3);
  EXPECT_EQ(layout.first_layer(), 1);
  EXPECT_EQ(layout.last_layer(), 3);
  EXPECT_EQ(names(layout), (std::vector<std::string>{"one.weight", "one.bias", "two.weight", "two.bias"}));
  EXPECT_EQ(layout.range(1), std::pair(0, 2));
  EXPECT_EQ(layout.range(2), std::pair(2, 4));
  EXPECT_EQ(layout.parameters()[2].layer, 2);
  EXPECT_EQ(layout.parameters()[2].count, 9);
}

TEST(Layout, ATieOnOneStageSharesWeightsAndNotGradients) {
  const Layout layout(toy_model(), 0, 4);
  const Parameter& tokens = layout.parameters().front();
  const Parameter& head = layout.parameters().back();
  ASSERT_EQ(head.spec.name, "head");
  EXPECT_TRUE(head.alias);
  EXPECT_FALSE(tokens.alias);
  EXPECT_EQ(head.offset, tokens.offset);
  EXPECT_EQ(head.gradient_offset, layout.size());                // past all others
  EXPECT_EQ(layout.gradient_size(), layout.size() + 2 * kLine);  // 21 floats take two lines

  ASSERT_EQ(layout.ties().size(), 1u);
  EXPECT_EQ(layout.ties()[0].primary, 0);
  EXPECT_EQ(layout.ties()[0].copy, 7);
}

TEST(Layout, ATieAcrossStagesHasOneEndOnEach) {
  const architecture::Model model = toy_model();
  const Layout first(model, 0, 2), middle(model, 2, 3), last(model, 3, 4);

  ASSERT_EQ(first.ties().size(), 1u);
  EXPECT_EQ(first.ties()[0].primary, 0);
  EXPECT_EQ(first.ties()[0].copy, -1);

  EXPECT_TRUE(middle.ties().empty());

  ASSERT_EQ(last.ties().size(), 1u);
  EXPECT_EQ(last.ties()[0].primary, -1);
  EXPECT_EQ(last.ties()[0].copy, 1);
  const Parameter& head = last.parameters()[1];
  EXPECT_FALSE(head.alias);  // a copy with weights of its own
  EXPECT_EQ(head.gradient_offset, head.offset);
  EXPECT_EQ(last.gradient_size(), last.size());
}

TEST(Layout, AnySplitHoldsEveryParameterOnce) {
  const architecture::Model model = toy_model();
  const std::vector<std::string> whole = names(Layout(model, 0, 4));
  for (const auto& split : all_splits(4)) {
    std::vector<std::string> parts;
    for (const auto& [first, last] : split) {
      const Layout layout(model, first, last);
      for (const std::string& name : names(layout)) parts.push_back(name);

      // On a stage, no two parameters share gradients, and only aliases share weights.
      std::set<std::int64_t> weights, gradients;
      for (const Parameter& parameter : layout.parameters()) {
        EXPECT_TRUE(gradients.insert(parameter.gradient_offset).second);
        EXPECT_EQ(weights.insert(parameter.offset).second, !parameter.alias);
        EXPECT_LE(parameter.offset + parameter.count, layout.size());
        EXPECT_LE(parameter.gradient_offset + parameter.count, layout.gradient_size());
      }
    }
    EXPECT_EQ(parts, whole) << split.size() << " stages";
  }
}

TEST(LayoutDeathTest, LayersOutsideTheModelOrTheStageAreABug) {
  const architecture::Model model = toy_model();
  EXPECT_DEATH(Layout(model, 2, 2), "layers \\[2, 2\\) of 4");
  EXPECT_DEATH(Layout(model, 0, 5), "layers \\[0, 5\\) of 4");
  const Layout layout(model, 1, 2);
  EXPECT_DEATH(layout.range(2), "layer 2 is not in \\[1, 2\\)");
}

}  // namespace
}  // namespace twobw::weights
