// BERT's operations on a GPU (on_gpu.h).
#include <array>
#include <limits>

#include "engine/models/ops.h"
#include "on_gpu.h"

namespace twobw::models {
namespace {

using at::Tensor;
using BertOpsOnGpu = OpsOnGpu;

TEST_F(BertOpsOnGpu, LinearAndStream) {
  const Operation both = [](const auto& in) {
    const auto [out, stream] = ops::linear_and_stream(in[0], in[1], in[2]);
    return std::vector{out, stream};
  };
  Case c{.operation = both,
         .inputs = {normal({2, 61, 96}, 1)},
         .parameters = {normal({160, 96}, 2, 0.1), normal({160}, 3)}};
  expect_like_the_cpu(c);
  c.operation = [&](const auto& in) { return std::vector{both(in)[0]}; };  // one of the two alone
  expect_like_the_cpu(c);
  c.operation = [&](const auto& in) {  // and the stream as a residual
    const auto outputs = both(in);
    return std::vector{outputs[0].narrow(2, 0, 96) + outputs[1] * 2};
  };
  expect_like_the_cpu(c);
}

TEST_F(BertOpsOnGpu, FullAttention) {
  for (const bool deterministic : {false, true}) {
    for (const auto& [heads, head, length] :
         {std::array{4, 64, 256}, std::array{2, 32, 64}, std::array{3, 128, 192}, std::array{2, 64, 203},
          std::array{2, 5, 33}}) {
      SCOPED_TRACE(testing::Message() << heads << " heads of " << head << ", " << length << " tokens"
                                      << (deterministic ? ", deterministic" : ""));
      register_stream(deterministic);
      const int count = heads;
      Case c{.operation =
                 [count](const auto& in) {
                   return std::vector{ops::full_attention(in[0], count, {}, 0.0, {.training = true}, 0)};
                 },
             .inputs = {normal({3, length, 3 * heads * head}, 1)},
             .parameters = {}};
      expect_like_the_cpu(c, kAttentionTolerance);
      // Lengths: all tokens, a half, the first alone.
      c.integers = {at::tensor({length, length / 2, 0}, at::kLong)};
      c.operation = [count](const auto& in) {
        return std::vector{ops::full_attention(in[0], count, in[1], 0.0, {.training = true}, 0)};
      };
      expect_like_the_cpu(c, kAttentionTolerance);
    }
  }
}

// Vocabularies with and without room between the rows of logits, and a few classes.
TEST_F(BertOpsOnGpu, HeadLossWithABias) {
  for (const std::int64_t vocabulary : {320, 30522, 3, 2}) {
    SCOPED_TRACE(vocabulary);
    Tensor targets = random_tokens({2, 40}, vocabulary, 3);
    targets.masked_fill_(at::arange(80).view({2, 40}).remainder(3).eq(0), -100);
    expect_like_the_cpu({.operation =
                             [](const auto& in) {
                               const Tensor scale = at::full({1}, 0.1, in[0].options().dtype(at::kDouble));
                               return std::vector{ops::head_loss(in[0], in[1], in[2], in[3], scale)};
                             },
                         .inputs = {normal({2, 40, 64}, 1)},
                         .parameters = {normal({vocabulary, 64}, 2, 0.1), normal({vocabulary}, 4, 0.1)},
                         .integers = {targets},
                         .is_loss = true},
                        // With few classes the gradients of the bias nearly cancel.
                        vocabulary <= 3 ? 4 * kBfloat16Tolerance : kBfloat16Tolerance);
  }
}

TEST_F(BertOpsOnGpu, SquaredError) {
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  expect_like_the_cpu({.operation =
                           [](const auto& in) {
                             const Tensor scale = at::full({1}, 0.5, in[0].options().dtype(at::kDouble));
                             const Tensor outputs = ops::linear(in[0], in[1], in[2]);
                             return std::vector{ops::squared_error(outputs, in[3], scale)};
                           },
                       .inputs = {normal({3, 64}, 1)},
                       .parameters = {normal({1, 64}, 2, 0.1), normal({1}, 3)},
                       .integers = {at::tensor({0.5, nothing, -3.0}, at::kDouble)},
                       .is_loss = true});
}

}  // namespace
}  // namespace twobw::models
