#include "core/base/parameter_groups.h"

#include <gtest/gtest.h>

namespace twobw {
namespace {

TEST(ParameterGroups, AStarStandsForAnyText) {
  EXPECT_TRUE(matches("*.bias", "block0.mlp.up.bias"));
  EXPECT_TRUE(matches("block*.up.*", "block0.mlp.up.bias"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("head.weight", "head.weight"));
  EXPECT_FALSE(matches("head", "head.weight"));
  EXPECT_FALSE(matches("*.bias", "bias.weight"));
  EXPECT_FALSE(matches("", "x"));
}

TEST(ParameterGroups, AreAPatternAndValues) {
  const auto group = parse_group("embedding.* lr=1e-4 weight_decay=0");
  ASSERT_TRUE(group);
  EXPECT_EQ(group->pattern, "embedding.*");
  EXPECT_EQ(group->lr, 1e-4);
  EXPECT_EQ(group->weight_decay, 0);
  for (const char* text : {"", "embedding.*", "lr=1", "a lr", "a lr=", "a lr=x", "a lr=-1", "a lr=1 lr=2",
                           "a momentum=1", "a lr=inf", "a lr=1x"})
    EXPECT_FALSE(parse_group(text)) << text;
}

TEST(ParameterGroups, TheFirstThatFitsHolds) {
  OptimizerConfig config{.lr = 1e-2, .weight_decay = 0.5};
  config.groups = {"*.bias lr=1e-3", "head.* weight_decay=0.25", "* lr=0"};
  const auto values = [&](const char* name, bool decays) {
    const GroupValues found = group_values(config, name, decays);
    return std::pair(found.rate, found.weight_decay);
  };
  EXPECT_EQ(values("head.bias", false), std::pair(0.1, 0.0));
  EXPECT_EQ(values("head.weight", true), std::pair(1.0, 0.25));
  EXPECT_EQ(values("head.gain", false), std::pair(1.0, 0.25));  // said outright
  EXPECT_EQ(values("embedding", true), std::pair(0.0, 0.5));
  config.groups.clear();
  EXPECT_EQ(values("embedding", true), std::pair(1.0, 0.5));
  EXPECT_EQ(values("embedding", false), std::pair(1.0, 0.0));
}

}  // namespace
}  // namespace twobw
