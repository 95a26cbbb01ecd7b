// The building blocks of llama against their formulas.
#include <gtest/gtest.h>

#include "engine/models/ops.h"
#include "engine/models/rotary.h"
#include "operations.h"

namespace twobw::models {
namespace {

using at::Tensor;

constexpr double kEps = 1e-2;  // large enough to be missed where it is forgotten

Tensor rms_norm_formula(const Tensor& x, const Tensor& weight) {
  return x / (x.pow(2).mean(-1, true) + kEps).sqrt() * weight;
}

TEST(RmsNorm, AgreesWithItsFormula) {
  const Operation norm = [](const Inputs& in) { return ops::rms_norm(in[0], in[1], kEps); };
  const Operation formula = [](const Inputs& in) { return rms_norm_formula(in[0], in[1]); };
  for (const std::int64_t width : {1, 16, 37}) {
    const Inputs inputs = {normal({2, 5, width}, 1), normal({width}, 2)};
    expect_agrees(norm, formula, inputs);
    expect_accumulates(norm, inputs, 1);
  }
  expect_agrees(norm, formula, {normal({600, 100}, 1), normal({100}, 2)});  // enough for several threads
  expect_matches_differences(norm, {normal({3, 8}, 1), normal({8}, 2)});
}

TEST(RmsNorm, TakesInputsThatAreNotContiguous) {
  expect_agrees([](const Inputs& in) { return ops::rms_norm(in[0].t(), in[1], kEps).t(); },
                [](const Inputs& in) { return rms_norm_formula(in[0].t(), in[1]).t(); },
                {normal({8, 3}, 1), normal({8}, 2)});
}

TEST(Swiglu, AgreesWithItsFormula) {
  const Operation swiglu = [](const Inputs& in) { return ops::swiglu(in[0]); };
  const Operation formula = [](const Inputs& in) {
    const auto halves = in[0].chunk(2, -1);
    return halves[0] / (1 + (-halves[0]).exp()) * halves[1];
  };
  for (const std::int64_t width : {1, 16, 37}) expect_agrees(swiglu, formula, {normal({2, 5, 2 * width}, 1)});
  expect_agrees(swiglu, formula, {normal({300, 200}, 1)});
  expect_matches_differences(swiglu, {normal({3, 14}, 1)});
}

TEST(Swiglu, FarFromZeroIsZeroOrTheGate) {
  const Tensor gates = at::tensor({-1e30f, -200.0f, -90.0f, 90.0f, 200.0f});
  const Tensor x = leaf(at::cat({gates, at::ones({5})}).view({1, 10}));
  const Tensor out = ops::swiglu(x);
  torch::autograd::backward({out.sum()}, {});
  expect_close(out[0], gates.clamp_min(0), 1e-6);
  expect_close(x.grad()[0].narrow(0, 0, 5), gates.gt(0).to(at::kFloat), 1e-6);
}

constexpr ops::Heads kHeads{.queries = 6, .keys = 2, .size = 4};
constexpr int kWidth = 10 * 4;

ModelConfig config() {
  return {.family = "llama", .width = 24, .heads = 6, .context = 9, .kv_heads = 2};
}

Tensor turned_formula(const Tensor& x) {  // [b, T, heads, 4]
  const Tensor places = at::arange(x.size(1), at::kDouble).view({-1, 1, 1});
  const Tensor angle = places * at::pow(10000.0, at::arange(2, at::kDouble) * -0.5);
  const auto halves = x.chunk(2, -1);
  return at::cat(
      {halves[0] * angle.cos() - halves[1] * angle.sin(), halves[1] * angle.cos() + halves[0] * angle.sin()},
      -1);
}

TEST(Rotate, TurnsQueriesAndKeysByTheirPlaces) {
  const Operation rotate = [](const Inputs& in) {
    return ops::rotate(in[0], kHeads, RotaryTable::of(config())->angles(in[0].size(1), at::kCPU));
  };
  const Operation formula = [](const Inputs& in) {
    const auto parts = in[0].view({2, 5, 10, 4}).split_with_sizes({8, 2}, 2);
    return at::cat({turned_formula(parts[0]), parts[1]}, 2).view({2, 5, kWidth});
  };
  expect_agrees(rotate, formula, {normal({2, 5, kWidth}, 1)});
  expect_matches_differences(rotate, {normal({2, 5, kWidth}, 1)});
}

TEST(Rotate, ModelsThatTurnAlikeShareATable) {
  const auto table = RotaryTable::of(config());
  EXPECT_EQ(RotaryTable::of(config()), table);
  EXPECT_EQ(table->angles(3, at::kCPU).data_ptr(), table->angles(9, at::kCPU).data_ptr());
  ModelConfig other = config();
  other.rope_theta = 500;
  EXPECT_NE(RotaryTable::of(other), table);
}

TEST(Rotate, TablesAreAsLongAsIsAskedFor) {
  ModelConfig long_one = config();
  long_one.context = 1 << 24;
  long_one.head_size = 4096;
  const auto table = RotaryTable::of(long_one);
  const Tensor first = table->angles(7, at::kCPU);
  EXPECT_LE(first.size(0), 1024);
  const Tensor longer = table->angles(1500, at::kCPU);
  EXPECT_GE(longer.size(0), 1500);
  EXPECT_LE(longer.size(0), 2048);
  EXPECT_TRUE(at::equal(first, longer.narrow(0, 0, first.size(0))));
  EXPECT_EQ(table->angles(7, at::kCPU).data_ptr(), longer.data_ptr());
  EXPECT_EQ(RotaryTable::of(config())->angles(7, at::kCPU).size(0), 9);
}

TEST(GroupedAttention, AgreesWithItsFormula) {
  for (const int keys : {1, 2, 6}) {
    const ops::Heads heads{.queries = 6, .keys = keys, .size = 4};
    const Operation attention = [&](const Inputs& in) { return ops::grouped_attention(in[0], heads); };
    const Operation formula = [&](const Inputs& in) {
      const auto parts =
          in[0].view({2, 5, heads.all(), 4}).transpose(1, 2).split_with_sizes({6, keys, keys}, 1);
      const Tensor k = parts[1].repeat_interleave(6 / keys, 1), v = parts[2].repeat_interleave(6 / keys, 1);
      const Tensor future = at::ones({5, 5}, at::kBool).triu(1);
      const Tensor scores = (at::matmul(parts[0], k.transpose(-2, -1)) / 2.0).masked_fill(future, -INFINITY);
      return at::matmul(at::softmax(scores, -1), v).transpose(1, 2).reshape({2, 5, 24});
    };
    const Inputs inputs = {normal({2, 5, heads.all() * 4}, 1)};
    expect_agrees(attention, formula, inputs);
    expect_matches_differences(attention, inputs);
  }
}

TEST(NormHeads, NormsEveryHeadOfQueriesAndOfKeys) {
  const Operation norm = [](const Inputs& in) { return ops::norm_heads(in[0], kHeads, in[1], in[2], kEps); };
  const Operation formula = [](const Inputs& in) {
    const auto parts = in[0].view({2, 5, 10, 4}).split_with_sizes({6, 2, 2}, 2);
    return at::cat({rms_norm_formula(parts[0], in[1]), rms_norm_formula(parts[1], in[2]), parts[2]}, 2)
        .view({2, 5, kWidth});
  };
  const Inputs inputs = {normal({2, 5, kWidth}, 1), normal({4}, 2), normal({4}, 3)};
  expect_agrees(norm, formula, inputs);
  expect_accumulates(norm, inputs, 1);
  expect_accumulates(norm, inputs, 2);
}

}  // namespace
}  // namespace twobw::models
