// Dropout on CPUs: its masks against their definition, its gradients against autograd with those masks.
#include "engine/models/dropout.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/dropout.h"
#include "engine/models/kernels.h"
#include "engine/models/ops.h"
#include "operations.h"

namespace twobw::models {
namespace {

using at::Tensor;

MicrobatchContext dropout_pass() {
  return {.training = true, .seed = 5, .update = 6, .microbatch = 7, .layer = 8};
}

// The mask [n3, n2, n1, width] element by element, by the definition in core/base/dropout.h.
Tensor mask_by_definition(at::IntArrayRef sizes, double p, const MicrobatchContext& pass, int site) {
  const std::uint64_t key =
      mask_key(dropout_key(pass.seed, pass.update, pass.microbatch), dropout_site(pass.layer, site));
  Tensor mask = at::empty(sizes, at::kFloat);
  auto at = mask.accessor<float, 4>();
  for (std::int64_t i = 0; i < sizes[0]; ++i) {
    for (std::int64_t j = 0; j < sizes[1]; ++j) {
      for (std::int64_t k = 0; k < sizes[2]; ++k) {
        for (std::int64_t column = 0; column < sizes[3]; ++column) {
          const auto word = [](std::int64_t index) { return static_cast<std::uint32_t>(index); };
          float factors[4];
          dropout_factors(key, {word(k), word(j), word(i)}, word(column / 4), dropout_rate(p), factors);
          at[i][j][k][column] = factors[column % 4];
        }
      }
    }
  }
  return mask;
}

Tensor drawn_mask(at::IntArrayRef sizes, double p, int site = 3) {
  return ops::dropout(at::ones(sizes), p, dropout_pass(), site);
}

TEST(DropoutMasks, AreAsDefined) {
  for (const std::int64_t width : {1, 3, 4, 31, 32, 33, 64, 70}) {
    for (const double p : {0.1, 0.5, 0.9}) {
      SCOPED_TRACE(testing::Message() << width << ", " << p);
      const Tensor expected = mask_by_definition({2, 3, 5, width}, p, dropout_pass(), 3);
      EXPECT_TRUE(at::equal(drawn_mask({2, 3, 5, width}, p), expected));
      EXPECT_TRUE(at::equal(drawn_mask({3, 5, width}, p), expected[0]));
      EXPECT_TRUE(at::equal(drawn_mask({5, width}, p), expected[0][0]));
      EXPECT_TRUE(at::equal(drawn_mask({width}, p), expected[0][0][0]));
    }
  }
}

// A CPU trims padding and a GPU does not; common elements have the same masks.
TEST(DropoutMasks, DoNotDependOnTheLengthOfTheMicrobatch) {
  const Tensor whole = drawn_mask({4, 16, 24}, 0.3), weights = drawn_mask({4, 2, 16, 16}, 0.3);
  EXPECT_TRUE(at::equal(drawn_mask({4, 9, 24}, 0.3), whole.narrow(1, 0, 9)));
  EXPECT_TRUE(at::equal(drawn_mask({3, 16, 24}, 0.3), whole.narrow(0, 0, 3)));
  EXPECT_TRUE(at::equal(drawn_mask({4, 2, 9, 9}, 0.3), weights.narrow(2, 0, 9).narrow(3, 0, 9)));
}

TEST(DropoutMasks, AreTheSameOverSeveralThreads) {
  const Tensor large = drawn_mask({3, 200, 250}, 0.2);
  EXPECT_TRUE(at::equal(large, mask_by_definition({1, 3, 200, 250}, 0.2, dropout_pass(), 3)[0]));
}

TEST(DropoutMasks, KeepTheMeanOfWhatTheyMultiply) {
  constexpr double kRate = 0.1, kCount = 8 * 128 * 256;
  const Tensor kept = drawn_mask({8, 128, 256}, kRate).ne(0).to(at::kDouble);
  EXPECT_NEAR(kept.sum().item<double>(), (1 - kRate) * kCount, 5 * std::sqrt(kCount * kRate * (1 - kRate)));
}

// Against autograd, with the mask as a constant.
TEST(DropoutOntoAStream, AgreesWithAutograd) {
  const Tensor mask = mask_by_definition({1, 2, 5, 24}, 0.3, dropout_pass(), 3)[0].to(at::kDouble);
  expect_agrees([](const Inputs& in) { return ops::dropout(in[0], 0.3, dropout_pass(), 3); },
                [&](const Inputs& in) { return in[0] * mask; }, {normal({2, 5, 24}, 1)});
  expect_agrees([](const Inputs& in) { return ops::dropout_add(in[0], in[1], 0.3, dropout_pass(), 3); },
                [&](const Inputs& in) { return in[1] + in[0] * mask; },
                {normal({2, 5, 24}, 1), normal({2, 5, 24}, 2)});
  // The same with strided inputs.
  expect_agrees(
      [](const Inputs& in) {
        return ops::dropout_add(in[0].transpose(0, 1), in[1].transpose(0, 1), 0.3, dropout_pass(), 3);
      },
      [&](const Inputs& in) { return in[1].transpose(0, 1) + in[0].transpose(0, 1) * mask; },
      {normal({5, 2, 24}, 1), normal({5, 2, 24}, 2)});
}

TEST(DropoutOntoAStream, IsTheSumOutsideTrainingAndAtZero) {
  const Tensor x = normal({2, 3, 4}, 1), stream = normal({2, 3, 4}, 2);
  EXPECT_TRUE(at::equal(ops::dropout_add(x, stream, 0.3, {.training = false}, 0), stream + x));
  EXPECT_TRUE(at::equal(ops::dropout_add(x, stream, 0.0, dropout_pass(), 0), stream + x));
}

Tensor attention_with_dropout(const Tensor& qkv, const Tensor& lengths) {
  return lengths.defined() ? ops::full_attention(qkv, 3, lengths, 0.4, dropout_pass(), 2)
                           : ops::causal_attention(qkv, 3, 0.4, dropout_pass(), 2);
}

// Against autograd, with more keys than one draw covers, and heads of an odd size.
TEST(DroppedAttention, AgreesWithAutograd) {
  constexpr std::int64_t kLength = 37, kHeads = 3, kSize = 5;
  const Tensor mask =
      mask_by_definition({2, kHeads, kLength, kLength}, 0.4, dropout_pass(), 2).to(at::kDouble);
  const Tensor some = at::tensor({20, 37}, at::kLong);
  for (const Tensor& lengths : {Tensor(), some}) {
    const auto formula = [&](const Inputs& in) {
      const Tensor parts = in[0].view({2, kLength, 3, kHeads, kSize}).permute({2, 0, 3, 1, 4});
      Tensor unseen = at::ones({kLength, kLength}, at::kBool).triu(1);
      if (lengths.defined()) unseen = at::arange(kLength).ge(lengths.view({2, 1, 1, 1}));
      const Tensor scores =
          (at::matmul(parts[0], parts[1].transpose(-2, -1)) / std::sqrt(5.0)).masked_fill(unseen, -INFINITY);
      return at::matmul(at::softmax(scores, -1) * mask, parts[2])
          .transpose(1, 2)
          .reshape({2, kLength, kHeads * kSize});
    };
    expect_agrees([&](const Inputs& in) { return attention_with_dropout(in[0], lengths); }, formula,
                  {normal({2, kLength, 3 * kHeads * kSize}, 1)});
  }
}

TEST(SoftmaxRow, IsTheSoftmaxOfWhatIsSeen) {
  for (const std::int64_t seen : {1, 15, 16, 17, 50}) {
    const Tensor scores = normal({50}, 1) * 20;
    Tensor weights = scores.clone();
    softmax_row(weights.mutable_data_ptr<float>(), 50, seen, 0.5f);
    expect_close(weights.narrow(0, 0, seen), at::softmax(scores.narrow(0, 0, seen).to(at::kDouble) * 0.5, 0),
                 2e-6);
    EXPECT_EQ(weights.narrow(0, seen, 50 - seen).ne(0).sum().item<std::int64_t>(), 0);
  }
}

}  // namespace
}  // namespace twobw::models
