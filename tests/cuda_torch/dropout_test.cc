// Dropout on a GPU: bitwise the masks of the CPU, and the same values and gradients.
#include "engine/models/dropout.h"

#include <array>

#include "engine/models/ops.h"
#include "on_gpu.h"

namespace twobw::models {
namespace {

using at::Tensor;

using DropoutOnGpu = OpsOnGpu;

MicrobatchContext dropout_pass(std::int64_t microbatch = 7) {
  return {.training = true, .seed = 5, .update = 6, .microbatch = microbatch, .layer = 8};
}

TEST_F(DropoutOnGpu, MasksAreThoseOfTheCpu) {
  for (const std::vector<std::int64_t>& sizes : {std::vector<std::int64_t>{3, 50, 64},
                                                 {2, 5, 37},
                                                 {4, 33},
                                                 {2, 3, 40, 40},
                                                 {1, 2, 17, 17},
                                                 {3, 2, 7, 5},
                                                 {4099}}) {
    for (std::int64_t microbatch = 0; microbatch < 5; ++microbatch) {
      for (const double p : {0.1, 0.5}) {
        const Tensor x = normal(sizes, 1);
        const MicrobatchContext pass = dropout_pass(microbatch);
        const Tensor on_gpu = ops::dropout(x.to(at::kCUDA), p, pass.to(at::kCUDA), 3);
        EXPECT_TRUE(at::equal(on_gpu.cpu(), ops::dropout(x, p, pass, 3)));
      }
    }
  }
}

TEST_F(DropoutOnGpu, ValuesAndGradients) {
  for (const std::int64_t width : {64, 37}) {
    SCOPED_TRACE(width);
    expect_like_the_cpu({.operation =
                             [](const auto& in) {
                               return std::vector{
                                   ops::dropout(in[0], 0.3, dropout_pass().to(in[0].device()), 1)};
                             },
                         .inputs = {normal({3, 50, width}, 1)},
                         .parameters = {}});
    expect_like_the_cpu({.operation =
                             [](const auto& in) {
                               return std::vector{
                                   ops::dropout_add(in[0], in[1], 0.3, dropout_pass().to(in[0].device()), 1)};
                             },
                         .inputs = {normal({3, 50, width}, 1), normal({3, 50, width}, 2)},
                         .parameters = {}});
  }
}

TEST_F(DropoutOnGpu, CausalAttention) {
  for (const auto& [heads, head, length] :
       {std::array{4, 64, 256}, std::array{2, 32, 64}, std::array{1, 16, 200}, std::array{2, 5, 33}}) {
    SCOPED_TRACE(testing::Message() << heads << " heads of " << head << ", " << length << " tokens");
    const int count = heads;
    expect_like_the_cpu({.operation =
                             [count](const auto& in) {
                               return std::vector{ops::causal_attention(
                                   in[0], count, 0.2, dropout_pass().to(in[0].device()), 0)};
                             },
                         .inputs = {normal({2, length, 3 * heads * head}, 1)},
                         .parameters = {}},
                        kAttentionTolerance);
  }
}

TEST_F(DropoutOnGpu, AttentionToBothSides) {
  const Tensor some = at::tensor({64, 20, 0}, at::kLong);
  for (const bool pads : {false, true}) {
    SCOPED_TRACE(pads ? "padding" : "no padding");
    expect_like_the_cpu(
        {.operation =
             [pads](const auto& in) {
               const MicrobatchContext pass = dropout_pass().to(in[0].device());
               return std::vector{ops::full_attention(in[0], 4, pads ? in[1] : Tensor(), 0.2, pass, 0)};
             },
         .inputs = {normal({3, 64, 3 * 128}, 1)},
         .parameters = {},
         .integers = {some}},
        kAttentionTolerance);
  }
}

}  // namespace
}  // namespace twobw::models
