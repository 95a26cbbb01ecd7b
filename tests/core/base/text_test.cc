#include "core/base/text.h"

#include <gtest/gtest.h>

namespace twobw {
namespace {

TEST(Text, NearestFindsAMisspellingAndNothingElse) {
  const std::vector<std::string> commands = {"train", "verify", "schedule", "generate"};
  EXPECT_EQ(nearest("trian", commands), "train");
  EXPECT_EQ(nearest("scheduler", commands), "schedule");
  EXPECT_EQ(nearest("launch", commands), "");
}

// A figure takes the next unit when it rounds up to it.
TEST(Text, UnitsOfRoundedFigures) {
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024.0 * 1024 - 1), "1.0 MiB");
  EXPECT_EQ(format_count(950), "950");
  EXPECT_EQ(format_count(999'960), "1.0M");
  EXPECT_EQ(format_duration(0.0421), "0.042s");
  EXPECT_EQ(format_duration(9.96), "10s");
  EXPECT_EQ(format_duration(59.7), "1m 00s");
  EXPECT_EQ(format_duration(7500), "2h 05m");
  EXPECT_EQ(format_duration(3 * 86400 + 4 * 3600), "3d 04h");
  EXPECT_EQ(format_duration(1.0 / 0.0), "?");
}

}  // namespace
}  // namespace twobw
