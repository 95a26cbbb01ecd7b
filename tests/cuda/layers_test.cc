// The layers' kernels against plain loops in double.
#include <array>
#include <numbers>

#include "buffer.h"
#include "engine/models/kernels_cuda.h"

namespace twobw::models {
namespace {

template <typename T>
class LayersOnGpu : public CudaTest {};
using Types = testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(LayersOnGpu, Types);

// Widths with and without whole packs, that fit a warp's registers, a block's and neither.
constexpr std::array<int, 8> kWidths = {16, 37, 768, 1280, 1600, 2560, 4104, 8200};
constexpr std::int64_t kRows = 1061;

template <typename T>
struct NormCase {
  int width;
  std::size_t size = static_cast<std::size_t>(kRows) * width;
  std::vector<float> x = normal(size, 1), residual = normal(size, 2), weight = normal(width, 3),
                     bias = normal(width, 4), grad_out = normal(size, 5), grad_stream = normal(size, 6);
};

template <typename T>
void expect_layer_norm(bool residual_and_stream) {
  for (const int width : kWidths) {
    SCOPED_TRACE(testing::Message() << "width " << width);
    NormCase<T> c{.width = width};
    if (!residual_and_stream) {
      std::fill(c.residual.begin(), c.residual.end(), 0.0f);
      std::fill(c.grad_stream.begin(), c.grad_stream.end(), 0.0f);
    }
    const Buffer<T> x{rounded<T>(c.x)}, residual{rounded<T>(c.residual)}, weight{rounded<T>(c.weight)},
        bias{rounded<T>(c.bias)}, grad_out{rounded<T>(c.grad_out)}, grad_stream{rounded<T>(c.grad_stream)};
    Buffer<T> sum{c.size}, out{c.size}, grad_x{c.size};
    Buffer<float> mean{kRows}, deviation{kRows}, grad_weight{std::vector<float>(width, 1.0f)},
        grad_bias{std::vector<float>(width, 2.0f)},
        partial{static_cast<std::size_t>(cuda::layer_norm_partials(kRows, width))};
    cuda::layer_norm_forward<T>({.x = x.data(),
                                 .residual = residual_and_stream ? residual.data() : nullptr,
                                 .weight = weight.data(),
                                 .bias = bias.data(),
                                 .sum = sum.data(),  // written where there is a residual
                                 .out = out.data(),
                                 .mean = mean.data(),
                                 .deviation = deviation.data(),
                                 .rows = kRows,
                                 .width = width},
                                nullptr);
    cuda::layer_norm_backward<T>({.grad_out = grad_out.data(),
                                  .grad_stream = residual_and_stream ? grad_stream.data() : nullptr,
                                  .sum = residual_and_stream ? sum.data() : x.data(),
                                  .weight = weight.data(),
                                  .mean = mean.data(),
                                  .deviation = deviation.data(),
                                  .grad_x = grad_x.data(),
                                  .grad_weight = grad_weight.data(),
                                  .grad_bias = grad_bias.data(),
                                  .partial = partial.data(),
                                  .rows = kRows,
                                  .width = width},
                                 nullptr);
    const auto stream = widened(residual_and_stream ? sum.read() : x.read());
    const auto dx = seen<T>(c.x), dr = seen<T>(c.residual), w = seen<T>(c.weight), b = seen<T>(c.bias),
               go = seen<T>(c.grad_out), gs = seen<T>(c.grad_stream);
    std::vector<double> expected_sum(c.size), expected_out(c.size), expected_x(c.size),
        expected_weight(width, 1.0), expected_bias(width, 2.0);
    for (std::int64_t row = 0; row < kRows; ++row) {
      const std::size_t at = static_cast<std::size_t>(row) * width;
      double average = 0, variance = 0, total = 0, product = 0;
      for (int i = 0; i < width; ++i) {
        expected_sum[at + i] = dx[at + i] + dr[at + i];
        average += stream[at + i] / width;
      }
      for (int i = 0; i < width; ++i) variance += std::pow(stream[at + i] - average, 2) / width;
      const double scale = 1 / std::sqrt(variance + 1e-5);
      const auto hat = [&](int i) { return (stream[at + i] - average) * scale; };
      for (int i = 0; i < width; ++i) {
        expected_out[at + i] = hat(i) * w[i] + b[i];
        total += go[at + i] * w[i] / width;
        product += go[at + i] * w[i] * hat(i) / width;
        expected_weight[i] += go[at + i] * hat(i);
        expected_bias[i] += go[at + i];
      }
      for (int i = 0; i < width; ++i)
        expected_x[at + i] = scale * (go[at + i] * w[i] - total - hat(i) * product) + gs[at + i];
    }
    expect_near(stream, expected_sum, kRounding<T>);
    expect_near(widened(out.read()), expected_out, 2 * kRounding<T>);
    expect_near(widened(grad_x.read()), expected_x, 2 * kRounding<T>);
    expect_near(grad_weight.read(), expected_weight, 1e-5);
    expect_near(grad_bias.read(), expected_bias, 1e-5);
  }
}

TYPED_TEST(LayersOnGpu, LayerNormAndItsGradients) {
  expect_layer_norm<TypeParam>(false);
}

TYPED_TEST(LayersOnGpu, LayerNormInAResidualStream) {
  expect_layer_norm<TypeParam>(true);
}

// The gradients of weight and bias are sums over blocks.
TYPED_TEST(LayersOnGpu, LayerNormHasTheSameBitsEveryTime) {
  using T = TypeParam;
  constexpr int kWidth = 768;
  const NormCase<T> c{.width = kWidth};
  const Buffer<T> x{rounded<T>(c.x)}, weight{rounded<T>(c.weight)}, grad_out{rounded<T>(c.grad_out)};
  const Buffer<float> mean{kRows}, deviation{std::vector<float>(kRows, 1.0f)};
  std::vector<float> first;
  for (int time = 0; time < 3; ++time) {
    Buffer<T> grad_x{c.size};
    Buffer<float> grad_weight{kWidth}, grad_bias{kWidth},
        partial{static_cast<std::size_t>(cuda::layer_norm_partials(kRows, kWidth))};
    cuda::layer_norm_backward<T>({.grad_out = grad_out.data(),
                                  .sum = x.data(),
                                  .weight = weight.data(),
                                  .mean = mean.data(),
                                  .deviation = deviation.data(),
                                  .grad_x = grad_x.data(),
                                  .grad_weight = grad_weight.data(),
                                  .grad_bias = grad_bias.data(),
                                  .partial = partial.data(),
                                  .rows = kRows,
                                  .width = kWidth},
                                 nullptr);
    if (first.empty())
      first = grad_weight.read();
    else
      EXPECT_EQ(grad_weight.read(), first);
  }
}

double erf_gelu(double x) {
  return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
}

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

template <typename T>
void expect_gelu(cuda::Gelu kind, double (*exact)(double)) {
  for (const std::size_t size : {std::size_t{1 << 16}, std::size_t{1003}}) {
    const std::vector<float> x = normal(size, 1, 3), gradient = normal(size, 2);
    const Buffer<T> on_x{rounded<T>(x)}, on_gradient{rounded<T>(gradient)};
    Buffer<T> out{size}, grad_x{size};
    cuda::gelu_forward(on_x.data(), out.data(), static_cast<std::int64_t>(size), nullptr, kind);
    cuda::gelu_backward(on_x.data(), on_gradient.data(), grad_x.data(), static_cast<std::int64_t>(size),
                        nullptr, kind);
    std::vector<double> expected, expected_gradient;
    const auto seen_x = seen<T>(x), seen_gradient = seen<T>(gradient);
    for (std::size_t i = 0; i < size; ++i) {
      expected.push_back(exact(seen_x[i]));
      expected_gradient.push_back(seen_gradient[i] * (exact(seen_x[i] + 1e-5) - exact(seen_x[i] - 1e-5)) /
                                  2e-5);
    }
    expect_near(widened(out.read()), expected, kRounding<T>);
    expect_near(widened(grad_x.read()), expected_gradient, std::max(2e-6f, kRounding<T>));
  }
}

TYPED_TEST(LayersOnGpu, GeluAndItsGradient) {
  expect_gelu<TypeParam>(cuda::Gelu::Tanh, gelu);
  expect_gelu<TypeParam>(cuda::Gelu::Erf, erf_gelu);
}

TYPED_TEST(LayersOnGpu, SoftmaxCrossEntropyLeavesItsGradient) {
  using T = TypeParam;
  constexpr int kTokens = 37;
  for (const int classes : {8, 77, 50304, 200000}) {  // the last are more than a block has room for
    for (const float scale : {0.0f, 0.25f}) {
      SCOPED_TRACE(testing::Message() << classes << " classes, scale " << scale);
      const std::size_t size = static_cast<std::size_t>(kTokens) * classes;
      const std::vector<float> logits = normal(size, 1, 4);
      std::vector<std::int64_t> targets;
      for (int row = 0; row < kTokens; ++row) targets.push_back(row % 5 == 3 ? -100 : row * 7919 % classes);
      Buffer<T> on_logits{rounded<T>(logits)};
      const Buffer<std::int64_t> on_targets{targets};
      Buffer<float> loss{kTokens};
      const Buffer<double> on_scale{std::vector<double>{scale}};
      cuda::softmax_cross_entropy(on_logits.data(), on_targets.data(), loss.data(), kTokens, classes,
                                  scale == 0 ? nullptr : on_scale.data(), nullptr);
      const auto z = seen<T>(logits);
      std::vector<double> expected_loss, expected(z);
      for (int row = 0; row < kTokens; ++row) {
        const std::size_t at = static_cast<std::size_t>(row) * classes;
        if (targets[row] < 0) {
          expected_loss.push_back(0);
          if (scale != 0) std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(at), classes, 0.0);
          continue;
        }
        double sum = 0;
        for (int i = 0; i < classes; ++i) sum += std::exp(z[at + i]);
        expected_loss.push_back(std::log(sum) - z[at + targets[row]]);
        for (int i = 0; scale != 0 && i < classes; ++i)
          expected[at + i] = scale * (std::exp(z[at + i]) / sum - (i == targets[row] ? 1 : 0));
      }
      expect_near(loss.read(), expected_loss, 1e-5);
      expect_near(widened(on_logits.read()), expected, std::max(1e-5f, kRounding<T>));
    }
  }
}

TYPED_TEST(LayersOnGpu, RowsOfLogitsMayBeFurtherApart) {
  using T = TypeParam;
  constexpr int kTokens = 5;
  for (const int classes : {77, 50257}) {
    const int stride = (classes + 63) / 64 * 64;
    const std::vector<float> logits = normal(static_cast<std::size_t>(kTokens) * classes, 1, 4);
    std::vector<float> apart(static_cast<std::size_t>(kTokens) * stride,
                             1e30f);  // would be the largest by far
    for (int row = 0; row < kTokens; ++row)
      std::copy_n(logits.begin() + static_cast<std::ptrdiff_t>(row) * classes, classes,
                  apart.begin() + static_cast<std::ptrdiff_t>(row) * stride);
    const Buffer<std::int64_t> targets{{0, 1, classes / 2, classes - 2, classes - 1}};
    Buffer<T> on_logits{rounded<T>(logits)}, on_apart{rounded<T>(apart)};
    Buffer<float> loss{kTokens}, loss_apart{kTokens};
    const Buffer<double> scale{std::vector<double>{0.5}};
    cuda::softmax_cross_entropy(on_logits.data(), targets.data(), loss.data(), kTokens, classes, scale.data(),
                                nullptr);
    cuda::softmax_cross_entropy(on_apart.data(), targets.data(), loss_apart.data(), kTokens, classes,
                                scale.data(), nullptr, stride);
    const auto together = widened(on_logits.read()), found = widened(on_apart.read());
    std::vector<float> gathered;
    for (int row = 0; row < kTokens; ++row)
      gathered.insert(gathered.end(), found.begin() + static_cast<std::ptrdiff_t>(row) * stride,
                      found.begin() + static_cast<std::ptrdiff_t>(row) * stride + classes);
    expect_near(gathered, {together.begin(), together.end()}, kRounding<T>);
    const auto expected = loss.read();
    expect_near(loss_apart.read(), {expected.begin(), expected.end()}, 1e-5);
  }
}

// Wherever it is, alone in its pack or in all of it: the update that it would spoil is skipped then.
TYPED_TEST(LayersOnGpu, WhatIsNotANumberShowsInTheLoss) {
  using T = TypeParam;
  constexpr int kClasses = 50304, kTokens = 3;
  std::vector<float> logits = normal(static_cast<std::size_t>(kTokens) * kClasses, 1);
  logits[kClasses + 1234] = NAN;
  std::fill_n(logits.begin() + 2 * kClasses, 8, NAN);
  const Buffer<std::int64_t> targets{std::vector<std::int64_t>(kTokens, 99)};
  const Buffer<double> one{std::vector<double>{1.0}};
  for (const double* scale : std::vector<const double*>{nullptr, one.data()}) {
    Buffer<T> on_logits{rounded<T>(logits)};
    Buffer<float> loss{kTokens};
    cuda::softmax_cross_entropy(on_logits.data(), targets.data(), loss.data(), kTokens, kClasses, scale,
                                nullptr);
    const std::vector<float> losses = loss.read();
    EXPECT_TRUE(std::isfinite(losses[0]));
    EXPECT_TRUE(std::isnan(losses[1]));
    EXPECT_TRUE(std::isnan(losses[2]));
  }
}

using ScaledSumOnGpu = CudaTest;

TEST_F(ScaledSumOnGpu, IsThatOfAll) {
  for (const std::size_t size : {1, 1000, 65537}) {
    const std::vector<float> values = normal(size, 1, 2);
    const Buffer<float> on_values{values};
    const Buffer<double> scale{std::vector<double>{1.0 / static_cast<double>(size)}};
    Buffer<float> sum{1};
    cuda::scaled_sum(on_values.data(), scale.data(), sum.data(), static_cast<std::int64_t>(size), nullptr);
    double expected = 0;
    for (const float value : values) expected += value / static_cast<double>(size);
    EXPECT_NEAR(sum.read()[0], expected, 1e-5);
  }
}

TYPED_TEST(LayersOnGpu, ColumnSumsAreAdded) {
  using T = TypeParam;
  for (const int width : kWidths) {
    const std::vector<float> values = normal(kRows * width, 1);
    const Buffer<T> on_values{rounded<T>(values)};
    Buffer<float> gradient{std::vector<float>(width, 3.0f)},
        partial{static_cast<std::size_t>(cuda::column_sums_partials(kRows, width))};
    cuda::add_column_sums(on_values.data(), gradient.data(), partial.data(), kRows, width, nullptr);
    std::vector<double> expected(width, 3.0);
    const auto z = seen<T>(values);
    for (std::size_t i = 0; i < z.size(); ++i) expected[i % width] += z[i];
    expect_near(gradient.read(), expected, 1e-5);
  }
}

}  // namespace
}  // namespace twobw::models
