#include "engine/models/ops.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>

#include "operations.h"

namespace twobw::models {
namespace {

using at::Tensor;

Tensor linear(const Inputs& in) {
  return ops::linear(in[0], in[1], in[2]);
}
Inputs linear_inputs() {
  return {normal({2, 5, 8}, 1), normal({6, 8}, 2), normal({6}, 3)};
}

TEST(Linear, AgreesWithTheLibrary) {
  expect_agrees(
      linear, [](const Inputs& in) { return at::linear(in[0], in[1], in[2]); }, linear_inputs());
  expect_agrees([](const Inputs& in) { return ops::linear(in[0], in[1], {}); },
                [](const Inputs& in) { return at::linear(in[0], in[1]); },
                {normal({7, 8}, 1), normal({6, 8}, 2)});
  expect_matches_differences(linear, linear_inputs());
}

TEST(Linear, AccumulatesTheGradientsOfItsParametersInPlace) {
  expect_accumulates(linear, linear_inputs(), 1);
  expect_accumulates(linear, linear_inputs(), 2);
}

TEST(Linear, AnInputWithoutGradientIsNoneOfItsBusiness) {
  const Inputs in = linear_inputs();
  const Tensor weight = leaf(in[1]), bias = leaf(in[2]);
  torch::autograd::backward({ops::linear(in[0], weight, bias).sum()}, {});
  expect_close(bias.grad(), at::full({6}, 10.0), 1e-6);
}

TEST(Linear, TakesInputsThatAreNotContiguous) {
  const Operation transposed = [](const Inputs& in) {
    return ops::linear(in[0].transpose(0, 1), in[1], in[2]);
  };
  expect_agrees(
      transposed, [](const Inputs& in) { return at::linear(in[0].transpose(0, 1), in[1], in[2]); },
      linear_inputs());
}

Tensor index() {
  return at::tensor({3, 0, 3, 8, 3, 1}, at::kLong).view({2, 3});  // 3 comes three times
}
Tensor embedding(const Inputs& in) {
  return ops::embedding(in[0], index());
}

TEST(Embedding, AgreesWithTheLibrary) {
  expect_agrees(embedding, [](const Inputs& in) { return at::embedding(in[0], index()); },
                {normal({9, 4}, 1)});
  expect_matches_differences(embedding, {normal({9, 4}, 1)});
}

TEST(Embedding, AccumulatesItsGradientInPlace) {
  expect_accumulates(embedding, {normal({9, 4}, 1)}, 0);
}

TEST(LayerNorm, NormalisesTheLastDimension) {
  const Inputs inputs = {normal({2, 5, 8}, 1), normal({8}, 2), normal({8}, 3)};
  const Operation layer_norm = [](const Inputs& in) { return ops::layer_norm(in[0], in[1], in[2]); };
  const Operation reference = [](const Inputs& in) {
    const Tensor centred = in[0] - in[0].mean(-1, true);
    return centred / (centred.pow(2).mean(-1, true) + 1e-5).sqrt() * in[1] + in[2];
  };
  expect_agrees(layer_norm, reference, inputs);
  expect_accumulates(layer_norm, inputs, 1);
  expect_accumulates(layer_norm, inputs, 2);
}

TEST(Gelu, AgreesWithTheLibrary) {
  const Operation reference = [](const Inputs& in) { return at::gelu(in[0], "tanh"); };
  const Operation gelu = [](const Inputs& in) { return ops::gelu(in[0]); };
  expect_agrees(gelu, reference, {normal({3, 7}, 1)});
  expect_agrees(gelu, reference, {normal({50, 1000}, 1)});  // large enough for several threads
  expect_matches_differences(gelu, {normal({3, 7}, 1)});
}

TEST(Gelu, TakesInputsAndGradientsThatAreNotContiguous) {
  expect_agrees([](const Inputs& in) { return ops::gelu(in[0].t()).t(); },
                [](const Inputs& in) { return at::gelu(in[0], "tanh"); }, {normal({3, 7}, 1)});
}

MicrobatchContext pass_in_training() {
  return {.training = true, .seed = 5, .update = 6, .microbatch = 7, .layer = 8};
}

TEST(Attention, AgreesWithItsFormula) {
  const auto reference = [](const Inputs& in) {
    const Tensor parts = in[0].view({2, 5, 3, 2, 4}).permute({2, 0, 3, 1, 4});  // [qkv, b, head, T, 4]
    const Tensor future = at::ones({5, 5}, at::kBool).triu(1);
    const Tensor scores =
        (at::matmul(parts[0], parts[1].transpose(-2, -1)) / 2.0).masked_fill(future, -INFINITY);
    return at::matmul(at::softmax(scores, -1), parts[2]).transpose(1, 2).reshape({2, 5, 8});
  };
  const Operation attention = [](const Inputs& in) {
    return ops::causal_attention(in[0], /*heads=*/2, /*dropout=*/0.0, pass_in_training(), 0);
  };
  expect_agrees(attention, reference, {normal({2, 5, 24}, 1)});
  expect_matches_differences(attention, {normal({2, 5, 24}, 1)});
}

Tensor mask_of(const MicrobatchContext& pass, int site = 0) {
  return ops::dropout(at::ones({100}), 0.5, pass, site);
}

TEST(Dropout, IsTheIdentityOutsideTrainingAndAtZero) {
  const Tensor x = normal({4}, 1);
  EXPECT_TRUE(ops::dropout(x, 0.5, {.training = false}, 0).is_same(x));
  EXPECT_TRUE(ops::dropout(x, 0.0, {.training = true}, 0).is_same(x));
  const Tensor qkv = normal({1, 4, 12}, 1);
  EXPECT_TRUE(at::equal(ops::causal_attention(qkv, 1, 0.5, {.training = false}, 0),
                        ops::causal_attention(qkv, 1, 0.0, {.training = true}, 0)));
}

TEST(Dropout, TheMaskDependsOnSeedUpdateMicrobatchLayerAndSite) {
  std::vector<MicrobatchContext> passes(5, pass_in_training());
  passes[1].seed += 1;
  passes[2].update += 1;
  passes[3].microbatch += 1;
  passes[4].layer += 1;
  std::vector<Tensor> masks;
  for (const MicrobatchContext& pass : passes) masks.push_back(mask_of(pass));
  masks.push_back(mask_of(pass_in_training(), /*site=*/1));
  for (std::size_t i = 0; i < masks.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(at::equal(masks[i], masks[j])) << i << " and " << j;
  }
}

Tensor targets() {
  return at::tensor({3, 0, 10, 3, 7, 1}, at::kLong).view({2, 3});
}
Inputs head_inputs() {
  return {normal({2, 3, 8}, 1), normal({11, 8}, 2)};
}

Tensor scale_of(double value) {
  return at::full({1}, value, at::kDouble);
}

// `factor` times the mean over the targets.
Operation head_loss(double factor) {
  return [=](const Inputs& in) { return ops::head_loss(in[0], in[1], {}, targets(), scale_of(factor / 6)); };
}

Tensor reference_loss(const Inputs& in) {
  return at::cross_entropy_loss(at::linear(in[0], in[1]).reshape({6, 11}), targets().reshape(-1));
}

TEST(HeadLoss, AgreesWithTheLibrary) {
  expect_agrees(head_loss(1.0), reference_loss, head_inputs());
  expect_matches_differences(head_loss(1.0), head_inputs());
}

TEST(HeadLoss, ScalesTheLossAndTheGradient) {
  const Inputs inputs = leaves(head_inputs());
  EXPECT_EQ(8 * head_loss(0.125)(inputs).item<float>(), head_loss(1.0)(inputs).item<float>());
  const Inputs scaled = gradients(head_loss(0.125), leaves(head_inputs()));
  const Inputs full = gradients(head_loss(1.0), leaves(head_inputs()));
  expect_close(scaled[0] * 8, full[0], 1e-6);
  expect_close(scaled[1] * 8, full[1], 1e-6);
}

// As in LibTorch, which divides by the remaining targets.
TEST(HeadLoss, TargetsBelowZeroDoNotCount) {
  const Tensor some = at::tensor({-100, 0, 10, -1, 7, -100}, at::kLong).view({2, 3});
  const Operation ours = [=](const Inputs& in) {
    return ops::head_loss(in[0], in[1], {}, some, scale_of(1.0 / 3));
  };
  const Operation library = [=](const Inputs& in) {
    const Tensor masked = some.masked_fill(some.lt(0), -100).reshape(-1);
    return at::cross_entropy_loss(at::linear(in[0], in[1]).reshape({6, 11}), masked, {}, at::Reduction::Mean,
                                  -100);
  };
  expect_agrees(ours, library, head_inputs());
  const Tensor none = at::full({2, 3}, -100, at::kLong);
  const Operation nothing = [=](const Inputs& in) {
    return ops::head_loss(in[0], in[1], {}, none, scale_of(1));
  };
  EXPECT_EQ(nothing(leaves(head_inputs())).item<float>(), 0);
  for (const Tensor& gradient : gradients(nothing, leaves(head_inputs())))
    EXPECT_EQ(gradient.abs().max().item<float>(), 0);
}

TEST(HeadLoss, AccumulatesTheGradientOfItsWeightInPlace) {
  expect_accumulates(head_loss(1.0), head_inputs(), 1);
}

TEST(HeadLoss, WithoutGradientsGivesTheSameLoss) {
  const float expected = head_loss(1.0)(leaves(head_inputs())).item<float>();
  EXPECT_EQ(head_loss(1.0)(head_inputs()).item<float>(), expected);
  at::NoGradGuard no_grad;
  EXPECT_EQ(head_loss(1.0)(leaves(head_inputs())).item<float>(), expected);
}

}  // namespace
}  // namespace twobw::models
