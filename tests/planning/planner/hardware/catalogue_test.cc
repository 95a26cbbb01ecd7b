#include <set>

#include "planning/planner/costs/roofline.h"
#include "planning/planner/hardware/cluster.h"
#include "tests/planning/planner/planner_testing.h"

namespace twobw::planner {
namespace {

TEST(Catalogue, HasTheCommonDevices) {
  std::set<std::string> names;
  for (const DeviceKind& kind : device_catalogue()) names.insert(kind.name);
  EXPECT_EQ(names, (std::set<std::string>{"V100-16GB", "V100-32GB", "T4", "A100-40GB", "A100-80GB", "H100",
                                          "H200", "L4", "RTX 4090", "CPU core"}));
}

TEST(Catalogue, EveryDeviceCanBeModelled) {
  for (const DeviceKind& kind : device_catalogue()) {
    EXPECT_GT(kind.memory, 1e9) << kind.name;
    EXPECT_GT(kind.memory_bandwidth, 1e9) << kind.name;
    EXPECT_GT(peak_rate(kind, "fp32"), 1e9) << kind.name;
    for (const auto& [precision, rate] : kind.rates) EXPECT_GE(rate, peak_rate(kind, "fp32")) << kind.name;
  }
}

TEST(Catalogue, HoldsTheFiguresOfTheDataSheet) {
  const DeviceKind& v100 = known_device("V100-16GB");
  EXPECT_EQ(v100.memory, 16.0 * 1024 * 1024 * 1024);
  EXPECT_EQ(v100.memory_bandwidth, 900e9);
  EXPECT_EQ(peak_rate(v100, "fp16"), 125e12);
}

TEST(Catalogue, SuggestsTheNearestName) {
  EXPECT_EQ(refusal_of([] { known_device("V100-16G"); }),
            "the device 'V100-16G' is not known; did you mean 'V100-16GB'?");
  const std::string sentence = refusal_of([] { known_device("abacus"); });
  EXPECT_NE(sentence.find("the catalogue has V100-16GB, "), std::string::npos) << sentence;
}

TEST(Catalogue, APrecisionThatADeviceLacksIsRefused) {
  EXPECT_EQ(refusal_of([] { peak_rate(known_device("V100-16GB"), "bf16"); }),
            "train.precision is bf16, for which device 'V100-16GB' has no rate; allowed: fp16, fp32, or a "
            "profile measured in bf16");
  EXPECT_EQ(peak_rate(known_device("T4"), "fp16"), 65e12);
  EXPECT_EQ(refusal_of([] { peak_rate(known_device("T4"), "bf16"); }),
            "train.precision is bf16, for which device 'T4' has no rate; allowed: fp16, fp32, or a profile "
            "measured in bf16");
}

}  // namespace
}  // namespace twobw::planner
