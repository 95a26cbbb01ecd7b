#include "engine/weights/layout.h"

#include <gtest/gtest.h>

#include <bit>

#include "engine/weights/double_buffer.h"
#include "toy_model.h"

namespace twobw::weights {
namespace {

using Sums = std::vector<std::uint64_t>;

void flip(float& value, int bit) {
  value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ (1u << bit));
}

TEST(Checksum, AnyBitOfALayerChangesItsNumberAndNoOther) {
  const Layout layout(toy_model(/*tied=*/false), 0, 4);
  const at::Tensor flat = at::zeros({layout.size()});
  initialize(layout, flat, 3);
  const Sums before = layer_checksums(layout, flat);
  ASSERT_EQ(before.size(), 4u);
  float* values = flat.mutable_data_ptr<float>();
  for (const Parameter& parameter : layout.parameters()) {
    for (std::int64_t i = parameter.offset; i < parameter.offset + parameter.count; ++i) {
      for (int bit = 0; bit < 32; ++bit) {
        flip(values[i], bit);
        const Sums after = layer_checksums(layout, flat);
        for (int layer = 0; layer < 4; ++layer) {
          ASSERT_EQ(after[layer] != before[layer], layer == parameter.layer)
              << parameter.spec.name << " bit " << bit;
        }
        flip(values[i], bit);
      }
    }
  }
  EXPECT_EQ(layer_checksums(layout, flat), before);
}

TEST(Checksum, TheOrderOfTheWeightsCounts) {
  const Layout layout(toy_model({{{.name = "w", .shape = {2}}}}), 0, 1);
  at::Tensor flat = at::zeros({layout.size()});
  flat[0] = 1;
  const Sums before = layer_checksums(layout, flat);
  flat[0] = 0;
  flat[1] = 1;
  EXPECT_NE(layer_checksums(layout, flat), before);
}

TEST(Checksum, ThePaddingBetweenParametersDoesNotCount) {
  const Layout layout(toy_model({{{.name = "w", .shape = {2}}}}), 0, 1);
  at::Tensor flat = at::zeros({layout.size()});
  const Sums before = layer_checksums(layout, flat);
  flat[2] = 1;
  EXPECT_EQ(layer_checksums(layout, flat), before);
}

// Stages are compared with the whole by these numbers, so where a layer lies must not matter.
TEST(Checksum, ALayersNumberDoesNotDependOnTheSplit) {
  const architecture::Model model = toy_model();
  const Layout whole(model, 0, 4);
  const Sums expected = layer_checksums(whole, Versions(whole, 1, 5).flat(0));
  for (const auto& split : all_splits(4)) {
    Sums sums;
    for (const auto& [first, last] : split) {
      const Layout layout(model, first, last);
      for (std::uint64_t sum : layer_checksums(layout, Versions(layout, 1, 5).flat(0))) sums.push_back(sum);
    }
    EXPECT_EQ(sums, expected) << split.size() << " stages";
  }
}

TEST(Checksum, ATiedCopyThatDriftsIsNoticed) {
  const architecture::Model model = toy_model();
  const Layout last(model, 3, 4);
  const at::Tensor flat = at::zeros({last.size()});
  initialize(last, flat, 5);
  const Sums before = layer_checksums(last, flat);
  flip(flat.mutable_data_ptr<float>()[last.parameters()[1].offset], 0);
  EXPECT_NE(layer_checksums(last, flat), before);
}

}  // namespace
}  // namespace twobw::weights
