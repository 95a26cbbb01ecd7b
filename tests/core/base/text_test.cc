#include "core/base/text.h"

#include <gtest/gtest.h>

namespace twobw {
namespace {

TEST(Text, EditDistanceCountsEditsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("stages", "stages"), 0);
  EXPECT_EQ(edit_distance("stage", "stages"), 1);
  EXPECT_EQ(edit_distance("trian", "train"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
}

TEST(Text, NearestFindsASlipAndNothingElse) {
  const std::vector<std::string> commands = {"train", "verify", "schedule", "generate"};
  EXPECT_EQ(nearest("trian", commands), "train");
  EXPECT_EQ(nearest("scheduler", commands), "schedule");
  EXPECT_EQ(nearest("launch", commands), "");
  EXPECT_EQ(nearest("train", {}), "");
}

TEST(Text, Bytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(1024.0 * 1024 - 1), "1.0 MiB");  // not "1024.0 KiB"
  EXPECT_EQ(format_bytes(1.2 * 1024 * 1024 * 1024), "1.2 GiB");
}

TEST(Text, Counts) {
  EXPECT_EQ(format_count(950), "950");
  EXPECT_EQ(format_count(10'700'000), "10.7M");
  EXPECT_EQ(format_count(999'960), "1.0M");
  EXPECT_EQ(format_count(1.3e9), "1.3B");
}

TEST(Text, Durations) {
  EXPECT_EQ(format_duration(0.0421), "0.042s");
  EXPECT_EQ(format_duration(8.46), "8.5s");
  EXPECT_EQ(format_duration(9.96), "10s");
  EXPECT_EQ(format_duration(59.7), "1m 00s");
  EXPECT_EQ(format_duration(83), "1m 23s");
  EXPECT_EQ(format_duration(7500), "2h 05m");
  EXPECT_EQ(format_duration(3 * 86400 + 4 * 3600), "3d 04h");
  EXPECT_EQ(format_duration(1.0 / 0.0), "?");
}

}  // namespace
}  // namespace twobw
