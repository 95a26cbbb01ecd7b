// BERT's operations and the heads for sequences, against their formulas.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/models/ops.h"
#include "operations.h"

namespace twobw::models {
namespace {
namespace encoder {

using at::Tensor;

TEST(ErfGelu, AgreesWithTheLibrary) {
  const Operation library = [](const Inputs& in) { return at::gelu(in[0], "none"); };
  const Operation gelu = [](const Inputs& in) { return ops::erf_gelu(in[0]); };
  expect_agrees(gelu, library, {normal({3, 7}, 1)});
  expect_agrees(gelu, library, {normal({50, 1000}, 1)});  // large enough for several threads
  expect_matches_differences(gelu, {normal({3, 7}, 1)});
}

TEST(LayerNorm, TakesAnEpsilon) {
  constexpr double kLarge = 0.5;  // to be missed where it is forgotten
  const Operation norm = [](const Inputs& in) { return ops::layer_norm(in[0], in[1], in[2], kLarge); };
  const Operation formula = [](const Inputs& in) {
    const Tensor centred = in[0] - in[0].mean(-1, true);
    return centred / (centred.pow(2).mean(-1, true) + kLarge).sqrt() * in[1] + in[2];
  };
  expect_agrees(norm, formula, {normal({2, 5, 8}, 1), normal({8}, 2), normal({8}, 3)});
}

TEST(LinearAndStream, GivesBothAndAddsTheirGradients) {
  const Operation both = [](const Inputs& in) {
    const auto [out, stream] = ops::linear_and_stream(in[0], in[1], in[2]);
    return at::cat({out, stream}, -1);
  };
  const Operation formula = [](const Inputs& in) {
    return at::cat({at::linear(in[0], in[1], in[2]), in[0]}, -1);
  };
  const Inputs inputs = {normal({2, 5, 8}, 1), normal({6, 8}, 2), normal({6}, 3)};
  expect_agrees(both, formula, inputs);
  expect_accumulates(both, inputs, 1);
  expect_accumulates(both, inputs, 2);
}

MicrobatchContext in_training() {
  return {.training = true, .seed = 5, .update = 6, .microbatch = 7, .layer = 8};
}

// Three sequences of 5 places, two heads of 4; `lengths` without the padding (at least the first token
// counts); `mask` of the dropout.
Tensor attention_formula(const Tensor& qkv, const Tensor& lengths, const Tensor& mask) {
  const Tensor parts = qkv.view({3, 5, 3, 2, 4}).permute({2, 0, 3, 1, 4});  // [qkv, b, head, T, 4]
  Tensor scores = at::matmul(parts[0], parts[1].transpose(-2, -1)) / 2.0;
  if (lengths.defined()) {
    Tensor padding = at::zeros({3, 1, 1, 5}, at::kBool);
    for (int row = 0; row < 3; ++row) {
      const std::int64_t end = std::max<std::int64_t>(lengths[row].item<std::int64_t>(), 1);
      padding[row].narrow(2, end, 5 - end).fill_(true);
    }
    scores = scores.masked_fill(padding, -INFINITY);
  }
  return at::matmul(at::softmax(scores, -1) * mask, parts[2]).transpose(1, 2).reshape({3, 5, 8});
}

TEST(FullAttention, AgreesWithItsFormula) {
  const Tensor some = at::tensor({5, 2, 1}, at::kLong), none = at::tensor({5, 0, 3}, at::kLong);
  for (const Tensor& lengths : {Tensor(), some, none}) {
    for (const double dropout : {0.0, 0.3}) {
      SCOPED_TRACE(testing::Message() << (lengths.defined() ? "padding, " : "") << dropout);
      const Tensor mask = ops::dropout(at::ones({3, 2, 5, 5}), dropout, in_training(), 4).to(at::kDouble);
      const Operation attention = [&](const Inputs& in) {
        return ops::full_attention(in[0], 2, lengths, dropout, in_training(), 4);
      };
      const Operation formula = [&](const Inputs& in) { return attention_formula(in[0], lengths, mask); };
      expect_agrees(attention, formula, {normal({3, 5, 24}, 1)});
      expect_matches_differences(attention, {normal({3, 5, 24}, 1)});
    }
  }
}

TEST(LastToken, IsTheOneBeforeThePadding) {
  const Tensor lengths = at::tensor({5, 1, 0}, at::kLong);
  const Operation last = [&](const Inputs& in) { return ops::last_token(in[0], lengths); };
  const Operation formula = [](const Inputs& in) {
    return at::stack({in[0][0][4], in[0][1][0], in[0][2][0]});
  };
  expect_agrees(last, formula, {normal({3, 5, 4}, 1)});
  expect_agrees([](const Inputs& in) { return ops::last_token(in[0], {}); },
                [](const Inputs& in) { return in[0].select(1, 4); }, {normal({3, 5, 4}, 1)});
}

Inputs biased_inputs() {
  return {normal({2, 3, 8}, 1), normal({11, 8}, 2), normal({11}, 3)};
}

TEST(HeadLossWithABias, AgreesWithTheLibrary) {
  const Tensor wanted = at::tensor({3, -100, 10, 3, 7, 1}, at::kLong).view({2, 3});
  const Operation loss = [&](const Inputs& in) {
    return ops::head_loss(in[0], in[1], in[2], wanted, at::full({1}, 0.2, at::kDouble));
  };
  const Operation library = [&](const Inputs& in) {
    return at::cross_entropy_loss(at::linear(in[0], in[1], in[2]).reshape({6, 11}), wanted.reshape(-1), {},
                                  at::Reduction::Mean, -100);
  };
  expect_agrees(loss, library, biased_inputs());
  expect_matches_differences(loss, biased_inputs());
  expect_accumulates(loss, biased_inputs(), 1);
  expect_accumulates(loss, biased_inputs(), 2);
}

TEST(HeadLossWithABias, TakesARowASequence) {
  const Tensor classes = at::tensor({1, 0, 2}, at::kLong);
  expect_agrees(
      [&](const Inputs& in) {
        return ops::head_loss(in[0], in[1], in[2], classes, at::full({1}, 1.0 / 3, at::kDouble));
      },
      [&](const Inputs& in) { return at::cross_entropy_loss(at::linear(in[0], in[1], in[2]), classes); },
      {normal({3, 8}, 1), normal({3, 8}, 2), normal({3}, 3)});
}

TEST(SquaredError, IsSummedOverValuesThatAreNumbers) {
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  const Tensor values = at::tensor({0.5, nothing, -3.0}, at::kDouble);
  const Operation error = [&](const Inputs& in) {
    return ops::squared_error(in[0], values, at::full({1}, 0.5, at::kDouble));
  };
  const Operation formula = [](const Inputs& in) {
    return 0.5 * ((in[0][0][0] - 0.5).pow(2) + (in[0][2][0] + 3).pow(2));
  };
  expect_agrees(error, formula, {normal({3, 1}, 1)});
  const Tensor none = at::full({3}, nothing, at::kDouble);
  const Tensor x = leaf(normal({3, 1}, 1));
  const Tensor zero = ops::squared_error(x, none, at::full({1}, 1.0, at::kDouble));
  torch::autograd::backward({zero}, {});
  EXPECT_EQ(zero.item<float>(), 0);
  EXPECT_EQ(x.grad().abs().max().item<float>(), 0);
}

}  // namespace encoder
}  // namespace
}  // namespace twobw::models
