#include "core/base/gpu_name.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace twobw {
namespace {

TEST(GpuName, IsAGpuOrSlicesOfOne) {
  const auto slices = parse_gpu("cuda:1/8.7");
  ASSERT_EQ(slices.size(), 1u);
  EXPECT_EQ(slices[0].gpu, 1);
  EXPECT_EQ(slices[0].slice, 7);
  EXPECT_EQ(slices[0].slices, 8);
  EXPECT_EQ(describe(slices[0]), "cuda:1/8.7");
  EXPECT_EQ(single_devices({"cuda:0", "cuda:1/2"}),
            (std::vector<std::string>{"cuda:0", "cuda:1/2.0", "cuda:1/2.1"}));
  EXPECT_EQ(single_devices({"cpu:0-3", "cpu:4"}), (std::vector<std::string>{"cpu:0-3", "cpu:4"}));
}

TEST(GpuName, GpusAreDealtOut) {
  const auto names = [](int gpus, int devices) {
    std::vector<std::string> result;
    for (const GpuSlice& slice : deal_gpus(gpus, devices)) result.push_back(describe(slice));
    return result;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(1, 1), (Names{"cuda:0"}));
  EXPECT_EQ(names(8, 3), (Names{"cuda:0", "cuda:1", "cuda:2"}));
  EXPECT_EQ(names(1, 2), (Names{"cuda:0/2.0", "cuda:0/2.1"}));
  EXPECT_EQ(names(2, 4), (Names{"cuda:0/2.0", "cuda:0/2.1", "cuda:1/2.0", "cuda:1/2.1"}));
  EXPECT_EQ(names(3, 4), names(2, 4));  // equal slices
}

TEST(GpuName, OtherFormsAreRefused) {
  for (const char* text :
       {"cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:0/", "cuda:0/0", "cuda:0/4x", "cuda:0x4", "cuda:0/65",
        "cpu:0", "cuda:0/4.4", "cuda:0/4.", "cuda:0.1", "cuda:0/4.-1"})
    EXPECT_THROW(parse_gpu(text), InputError) << text;
}

}  // namespace
}  // namespace twobw
