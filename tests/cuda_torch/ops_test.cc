// Operations of all families on a GPU (on_gpu.h), in all widths that choose another kernel.
#include "engine/models/ops.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "on_gpu.h"

namespace twobw::models {
namespace {

using at::Tensor;

TEST_F(OpsOnGpu, Linear) {
  for (const auto& [width, outputs] :
       std::vector<std::array<std::int64_t, 2>>{{64, 192}, {37, 111}, {24, 1600}, {24, 4104}, {24, 8200}}) {
    SCOPED_TRACE(outputs);
    const Case c{.operation = [](const auto& in) { return std::vector{ops::linear(in[0], in[1], in[2])}; },
                 .inputs = {normal({7, 151, width}, 1)},
                 .parameters = {normal({outputs, width}, 2, 0.1), normal({outputs}, 3)}};
    expect_like_the_cpu(c);
  }
}

TEST_F(OpsOnGpu, LinearOntoTheStream) {
  expect_like_the_cpu(
      {.operation = [](const auto& in) { return std::vector{ops::linear_add(in[0], in[2], in[3], in[1])}; },
       .inputs = {normal({2, 64, 256}, 1), normal({2, 64, 64}, 4)},
       .parameters = {normal({64, 256}, 2, 0.1), normal({64}, 3)}});
}

TEST_F(OpsOnGpu, Embedding) {
  for (const bool deterministic : {false, true}) {
    for (const std::int64_t width : {64, 37, 776}) {
      SCOPED_TRACE(width);
      register_stream(deterministic);
      expect_like_the_cpu(
          {.operation = [](const auto& in) { return std::vector{ops::embed(in[0], in[1], in[2])}; },
           .inputs = {},
           .parameters = {normal({301, width}, 1), normal({70, width}, 2)},
           .integers = {random_tokens({3, 60}, 301, 5)}});
    }
  }
}

// Rows with and without whole packs, that fit a warp's registers, a block's and neither.
TEST_F(OpsOnGpu, LayerNorm) {
  for (const std::int64_t width : {16, 37, 768, 1280, 1600, 2560, 4104, 8200}) {
    SCOPED_TRACE(width);
    const double eps = width == 768 ? 0.5 : 1e-5;
    const Case c{
        .operation = [eps](const auto& in) { return std::vector{ops::layer_norm(in[0], in[1], in[2], eps)}; },
        .inputs = {normal({7, 151, width}, 1)},
        .parameters = {normal({width}, 2), normal({width}, 3)}};
    expect_like_the_cpu(c);
    expect_same_bits_every_time(c);
  }
}

TEST_F(OpsOnGpu, NormAndStream) {
  const Operation both = [](const auto& in) {
    const auto [normed, stream] = ops::norm_and_stream(in[0], in[1], in[2]);
    return std::vector{normed, stream};
  };
  Case c{.operation = both,
         .inputs = {normal({2, 61, 768}, 1)},
         .parameters = {normal({768}, 2), normal({768}, 3)}};
  expect_like_the_cpu(c);
  // One of the two alone.
  c.operation = [&](const auto& in) { return std::vector{both(in)[0]}; };
  expect_like_the_cpu(c);
  c.operation = [&](const auto& in) { return std::vector{both(in)[1]}; };
  expect_like_the_cpu(c);
  // Both, and the stream went through another operation that has it as a residual.
  c.operation = [&](const auto& in) {
    const auto outputs = both(in);
    return std::vector{ops::gelu(outputs[0]) + outputs[1] * 2};
  };
  expect_like_the_cpu(c);
}

TEST_F(OpsOnGpu, Gelu) {
  for (const auto gelu : {ops::gelu, ops::erf_gelu}) {
    for (const std::int64_t width : {256, 37}) {
      expect_like_the_cpu({.operation = [gelu](const auto& in) { return std::vector{gelu(in[0])}; },
                           .inputs = {normal({3, 5, width}, 1, 2.0)},
                           .parameters = {}});
    }
  }
}

TEST_F(OpsOnGpu, CausalAttention) {
  for (const bool deterministic : {false, true}) {
    for (const auto& [heads, head, length] :
         {std::array{4, 64, 256}, std::array{2, 32, 64}, std::array{3, 128, 192}, std::array{2, 64, 200},
          std::array{2, 5, 33}}) {
      SCOPED_TRACE(testing::Message() << heads << " heads of " << head << ", " << length << " tokens"
                                      << (deterministic ? ", deterministic" : ""));
      register_stream(deterministic);
      const int count = heads;
      expect_like_the_cpu(
          {.operation =
               [count](const auto& in) {
                 return std::vector{ops::causal_attention(in[0], count, 0.0, {.training = true}, 0)};
               },
           .inputs = {normal({2, length, 3 * heads * head}, 1)},
           .parameters = {}},
          kAttentionTolerance);
    }
  }
}

// `factor` times the mean over the targets.
Tensor head_loss(const Tensor& hidden, const Tensor& weight, const Tensor& targets, double factor,
                 Tensor* room = nullptr) {
  const double scale = factor / static_cast<double>(targets.numel());
  return ops::head_loss(hidden, weight, {}, targets,
                        at::full({1}, scale, hidden.options().dtype(at::kDouble)), room);
}

// The CPU adds the weight's gradient in the backward, the GPU in the forward: the same after both.
TEST_F(OpsOnGpu, HeadLoss) {
  for (const std::int64_t vocabulary : {8, 320, 50257, 200000}) {
    SCOPED_TRACE(vocabulary);
    expect_like_the_cpu(
        {.operation = [](const auto& in) { return std::vector{head_loss(in[0], in[1], in[2], 8.0)}; },
         .inputs = {normal({2, 40, 64}, 1)},
         .parameters = {normal({vocabulary, 64}, 2, 0.1)},
         .integers = {random_tokens({2, 40}, vocabulary, 3)},
         .is_loss = true});
  }
}

TEST_F(OpsOnGpu, HeadLossIgnoresTargetsBelowZero) {
  Tensor targets = random_tokens({2, 40}, 320, 3);
  targets.masked_fill_(targets.remainder(3).eq(0), -100);
  expect_like_the_cpu(
      {.operation = [](const auto& in) { return std::vector{head_loss(in[0], in[1], in[2], 1.0)}; },
       .inputs = {normal({2, 40, 64}, 1)},
       .parameters = {normal({320, 64}, 2, 0.1)},
       .integers = {targets},
       .is_loss = true});
}

// More rows than fit the room for logits; the last part is smaller.
TEST_F(OpsOnGpu, HeadLossInParts) {
  expect_like_the_cpu(
      {.operation = [](const auto& in) { return std::vector{head_loss(in[0], in[1], in[2], 1.0)}; },
       .inputs = {normal({2, 8200, 32}, 1)},
       .parameters = {normal({129, 32}, 2, 0.1)},
       .integers = {random_tokens({2, 8200}, 129, 3)},
       .is_loss = true});
}

TEST_F(OpsOnGpu, HeadLossWithoutGradients) {
  const Tensor hidden = normal({2, 40, 64}, 1), weight = normal({320, 64}, 2, 0.3),
               targets = random_tokens({2, 40}, 320, 3);
  const at::NoGradGuard none;
  const Tensor expected = head_loss(hidden, weight, targets, 1.0);
  const Tensor loss = head_loss(hidden.cuda(), weight.cuda(), targets.cuda(), 1.0);
  EXPECT_EQ(loss.dim(), 0);
  EXPECT_FALSE(loss.requires_grad());
  EXPECT_LT(relative_error(loss, expected), kFloatTolerance);
}

// One logit of each row; the update is skipped then.
TEST_F(OpsOnGpu, HeadLossOfNanIsNan) {
  Tensor weight = normal({50304, 64}, 2, 0.3);
  weight[1234][5] = NAN;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const auto on_gpu = at::TensorOptions(at::kCUDA).dtype(type);
    for (const bool needs_gradient : {false, true}) {
      const Tensor parameter = weight.to(on_gpu).set_requires_grad(needs_gradient);
      if (needs_gradient) parameter.mutable_grad() = at::zeros_like(parameter, at::kFloat);
      const Tensor loss = head_loss(normal({3, 1, 64}, 1).to(on_gpu), parameter,
                                    at::full({3, 1}, 99, at::TensorOptions(at::kCUDA).dtype(at::kLong)), 1.0);
      EXPECT_TRUE(loss.isnan().item<bool>()) << type << needs_gradient;
    }
  }
}

// The room grows to the largest microbatch and is used again.
TEST_F(OpsOnGpu, HeadLossInRoomThatIsGiven) {
  const Tensor weight = normal({320, 64}, 2, 0.3).cuda();
  const at::NoGradGuard none;
  Tensor room;
  for (const std::int64_t length : {20, 40, 30}) {
    const Tensor hidden = normal({2, length, 64}, 1).cuda(),
                 targets = random_tokens({2, length}, 320, 3).cuda();
    const Tensor loss = head_loss(hidden, weight, targets, 1.0, &room);
    EXPECT_EQ(loss.item<float>(), head_loss(hidden, weight, targets, 1.0).item<float>());
    EXPECT_EQ(room.numel(), 2 * std::max<std::int64_t>(length, length == 30 ? 40 : 0) * 320);
  }
}

}  // namespace
}  // namespace twobw::models
