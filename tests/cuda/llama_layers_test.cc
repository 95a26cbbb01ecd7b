// The kernels of Llama's layers against plain loops in double.
#include <complex>

#include "buffer.h"
#include "engine/models/kernels_cuda.h"

namespace twobw::models {
namespace {

template <typename T>
class LlamaOnGpu : public CudaTest {};
using Types = testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(LlamaOnGpu, Types);

using Doubles = std::vector<double>;

Doubles added(Doubles a, const Doubles& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

// ---- RMS norm

constexpr float kEps = 1e-3f;  // large enough to be missed where it is forgotten

struct RmsCase {
  std::size_t rows, width;
  bool stream = true;  // a residual comes in, and a gradient of the sum
  std::vector<float> x = normal(rows * width, 1), residual = normal(rows * width, 2),
                     weight = normal(width, 3), grad_out = normal(rows * width, 4),
                     grad_stream = normal(rows * width, 5);
};

Doubles rms_norm(const Doubles& x, const Doubles& weight) {
  const std::size_t width = weight.size();
  Doubles out;
  for (std::size_t at = 0; at < x.size(); at += width) {
    double square = 0;
    for (std::size_t i = 0; i < width; ++i) square += x[at + i] * x[at + i] / static_cast<double>(width);
    for (std::size_t i = 0; i < width; ++i) out.push_back(x[at + i] / std::sqrt(square + kEps) * weight[i]);
  }
  return out;
}

struct RmsGradients {
  Doubles x, weight;
};

// With r = mean of x^2 + eps: the derivative of x_j / sqrt(r) by x_i is [i = j] / sqrt(r) - x_i x_j / (n
// r^1.5).
RmsGradients rms_norm_gradients(const Doubles& x, const Doubles& weight, const Doubles& grad_out) {
  const std::size_t width = weight.size();
  RmsGradients gradients{.weight = Doubles(width)};
  for (std::size_t at = 0; at < x.size(); at += width) {
    double r = kEps, along = 0;
    for (std::size_t i = 0; i < width; ++i) {
      r += x[at + i] * x[at + i] / static_cast<double>(width);
      along += grad_out[at + i] * weight[i] * x[at + i];
    }
    for (std::size_t i = 0; i < width; ++i) {
      gradients.x.push_back(grad_out[at + i] * weight[i] / std::sqrt(r) -
                            x[at + i] * along / (static_cast<double>(width) * std::pow(r, 1.5)));
      gradients.weight[i] += grad_out[at + i] * x[at + i] / std::sqrt(r);
    }
  }
  return gradients;
}

struct RmsResult {
  std::vector<float> normed, out, grad_x, grad_weight;
  bool operator==(const RmsResult&) const = default;
};

// The gradient of the weight is added to ones.
template <typename T>
RmsResult rms_norm_on_gpu(const RmsCase& c) {
  const auto rows = static_cast<std::int64_t>(c.rows);
  const auto width = static_cast<int>(c.width);
  const Buffer<T> x{rounded<T>(c.x)}, residual{rounded<T>(c.residual)}, weight{rounded<T>(c.weight)},
      grad_out{rounded<T>(c.grad_out)}, grad_stream{rounded<T>(c.grad_stream)};
  Buffer<T> sum{c.x.size()}, out{c.x.size()}, grad_x{c.x.size()};
  Buffer<float> scale{c.rows}, grad_weight{std::vector<float>(c.width, 1.0f)},
      partial{static_cast<std::size_t>(cuda::rms_norm_partials(rows, width))};
  cuda::rms_norm_forward<T>({.x = x.data(),
                             .residual = c.stream ? residual.data() : nullptr,
                             .weight = weight.data(),
                             .sum = c.stream ? sum.data() : nullptr,
                             .out = out.data(),
                             .scale = scale.data(),
                             .rows = rows,
                             .width = width,
                             .eps = kEps},
                            nullptr);
  cuda::rms_norm_backward<T>({.grad_out = grad_out.data(),
                              .grad_stream = c.stream ? grad_stream.data() : nullptr,
                              .sum = c.stream ? sum.data() : x.data(),
                              .weight = weight.data(),
                              .scale = scale.data(),
                              .grad_x = grad_x.data(),
                              .grad_weight = grad_weight.data(),
                              .partial = partial.data(),
                              .rows = rows,
                              .width = width},
                             nullptr);
  return {widened(c.stream ? sum.read() : x.read()), widened(out.read()), widened(grad_x.read()),
          grad_weight.read()};
}

template <typename T>
void expect_rms_norm(const RmsCase& c) {
  SCOPED_TRACE(testing::Message() << c.rows << " rows of " << c.width << (c.stream ? " in a stream" : ""));
  const RmsResult result = rms_norm_on_gpu<T>(c);
  const Doubles normed(result.normed.begin(), result.normed.end()), weight = seen<T>(c.weight);
  auto [grad_x, grad_weight] = rms_norm_gradients(normed, weight, seen<T>(c.grad_out));
  for (double& gradient : grad_weight) gradient += 1;
  if (c.stream) {
    expect_near(result.normed, added(seen<T>(c.x), seen<T>(c.residual)), kRounding<T>);
    grad_x = added(grad_x, seen<T>(c.grad_stream));
  }
  expect_near(result.out, rms_norm(normed, weight), 2 * kRounding<T>);
  expect_near(result.grad_x, grad_x, 2 * kRounding<T>);
  expect_near(result.grad_weight, grad_weight, 1e-5);
}

// Widths with and without whole packs, that fit a warp's registers, a block's and neither.
TYPED_TEST(LlamaOnGpu, RmsNormAndItsGradients) {
  for (const std::size_t width : {1, 16, 37, 768, 1600, 2048, 4096, 4104, 5120, 8192, 8200}) {
    for (const bool stream : {false, true})
      expect_rms_norm<TypeParam>({.rows = 261, .width = width, .stream = stream});
  }
}

TYPED_TEST(LlamaOnGpu, RmsNormOfOneRowAndOfMany) {
  for (const std::size_t width : {37, 768, 4096, 5120, 8200})
    expect_rms_norm<TypeParam>({.rows = 1, .width = width});
  expect_rms_norm<TypeParam>({.rows = 70001, .width = 24});
}

TYPED_TEST(LlamaOnGpu, RmsNormHasTheSameBitsEveryTime) {
  for (const std::size_t width : {37, 768, 4096}) {
    const RmsCase c{.rows = 1061, .width = width};
    const RmsResult first = rms_norm_on_gpu<TypeParam>(c);
    for (int time = 0; time < 3; ++time) EXPECT_TRUE(rms_norm_on_gpu<TypeParam>(c) == first);
  }
}

// ---- SwiGLU

struct SwigluCase {
  std::size_t rows, width;
  bool biased = true, in_place = false;
  std::vector<float> x = normal(rows * 2 * width, 1, 2), bias = normal(2 * width, 2),
                     grad_out = normal(rows * width, 3);
};

template <typename T>
Doubles seen_bias(const SwigluCase& c) {
  return c.biased ? seen<T>(c.bias) : Doubles(2 * c.width);
}

Doubles swiglu(const Doubles& x, const Doubles& bias) {
  const std::size_t width = bias.size() / 2;
  Doubles out;
  for (std::size_t at = 0; at < x.size(); at += 2 * width) {
    for (std::size_t i = 0; i < width; ++i) {
      const double a = x[at + i] + bias[i], b = x[at + width + i] + bias[width + i];
      out.push_back(a / (1 + std::exp(-a)) * b);
    }
  }
  return out;
}

// The quotient rule for a / (1 + exp(-a)), with both parts of the quotient multiplied by exp(a) where that is
// the smaller number.
double silu_slope(double a) {
  if (a < 0) return std::exp(a) * (1 + std::exp(a) + a) / std::pow(1 + std::exp(a), 2);
  return (1 + std::exp(-a) + a * std::exp(-a)) / std::pow(1 + std::exp(-a), 2);
}

Doubles swiglu_gradient(const Doubles& x, const Doubles& bias, const Doubles& grad_out) {
  const std::size_t width = bias.size() / 2;
  Doubles gradient(x.size());
  for (std::size_t at = 0; at < x.size(); at += 2 * width) {
    for (std::size_t i = 0; i < width; ++i) {
      const double a = x[at + i] + bias[i], b = x[at + width + i] + bias[width + i];
      const double g = grad_out[at / 2 + i];
      gradient[at + i] = g * b * silu_slope(a);
      gradient[at + width + i] = g * a / (1 + std::exp(-a));
    }
  }
  return gradient;
}

Doubles column_sums(const Doubles& values, std::size_t width) {
  Doubles sums(width);
  for (std::size_t i = 0; i < values.size(); ++i) sums[i % width] += values[i];
  return sums;
}

struct SwigluResult {
  std::vector<float> out, grad_x, grad_bias;
  bool operator==(const SwigluResult&) const = default;
};

template <typename T>
SwigluResult swiglu_on_gpu(const SwigluCase& c) {
  const auto rows = static_cast<std::int64_t>(c.rows);
  const auto width = static_cast<int>(c.width);
  const Buffer<T> x{rounded<T>(c.x)}, bias{rounded<T>(c.bias)}, grad_out{rounded<T>(c.grad_out)};
  Buffer<T> out{c.rows * c.width}, elsewhere{c.x.size()};
  Buffer<float> grad_bias{2 * c.width},
      partial{static_cast<std::size_t>(cuda::column_sums_partials(rows, 2 * width))};
  const T* added_bias = c.biased ? bias.data() : nullptr;
  const Buffer<T>& grad_x = c.in_place ? x : elsewhere;
  cuda::swiglu_forward<T>(x.data(), added_bias, out.data(), rows, width, nullptr);
  cuda::swiglu_backward<T>(x.data(), added_bias, grad_out.data(), grad_x.data(), rows, width, nullptr);
  cuda::add_column_sums(grad_x.data(), grad_bias.data(), partial.data(), rows, 2 * width, nullptr);
  return {widened(out.read()), widened(grad_x.read()), grad_bias.read()};
}

template <typename T>
void expect_swiglu(const SwigluCase& c) {
  SCOPED_TRACE(testing::Message() << c.rows << " rows of 2 x " << c.width << (c.biased ? ", biased" : "")
                                  << (c.in_place ? ", in place" : ""));
  const SwigluResult result = swiglu_on_gpu<T>(c);
  const Doubles x = seen<T>(c.x), bias = seen_bias<T>(c);
  const Doubles grad_x = swiglu_gradient(x, bias, seen<T>(c.grad_out));
  expect_near(result.out, swiglu(x, bias), kRounding<T>);
  expect_near(result.grad_x, grad_x, kRounding<T>);
  expect_near(result.grad_bias, column_sums(grad_x, 2 * c.width), std::max(1e-5f, kRounding<T>));
}

TYPED_TEST(LlamaOnGpu, SwigluAndItsGradients) {
  for (const std::size_t width : {1, 8, 37, 1024, 2056, 11008}) {
    for (const bool biased : {false, true}) {
      for (const bool in_place : {false, true})
        expect_swiglu<TypeParam>({.rows = 67, .width = width, .biased = biased, .in_place = in_place});
    }
  }
}

TYPED_TEST(LlamaOnGpu, SwigluOfOneRowAndOfMany) {
  for (const std::size_t width : {37, 2056}) expect_swiglu<TypeParam>({.rows = 1, .width = width});
  for (const std::size_t width : {5, 8}) expect_swiglu<TypeParam>({.rows = 70001, .width = width});
}

TYPED_TEST(LlamaOnGpu, SwigluFarFromZero) {
  const std::vector<float> gates = {-1e4f, -200, -100, -88, 88, 100, 200, 1e4f};
  std::vector<float> x = gates;
  x.resize(2 * gates.size(), 1.0f);  // all values are 1
  const SwigluResult result = swiglu_on_gpu<TypeParam>(
      {.rows = 1, .width = gates.size(), .biased = false, .x = x, .grad_out = std::vector<float>(8, 1.0f)});
  for (std::size_t i = 0; i < gates.size(); ++i) {
    const auto gate = static_cast<float>(static_cast<TypeParam>(gates[i]));
    const float tolerance = 1e-6f * std::abs(gate);
    EXPECT_NEAR(result.out[i], std::max(0.0f, gate), tolerance) << gate;
    EXPECT_NEAR(result.grad_x[i], gate > 0 ? 1 : 0, tolerance) << gate;
    EXPECT_NEAR(result.grad_x[gates.size() + i], std::max(0.0f, gate), tolerance) << gate;
  }
}

TYPED_TEST(LlamaOnGpu, SwigluHasTheSameBitsEveryTime) {
  const SwigluCase c{.rows = 1061, .width = 520};
  const SwigluResult first = swiglu_on_gpu<TypeParam>(c);
  for (int time = 0; time < 3; ++time) EXPECT_TRUE(swiglu_on_gpu<TypeParam>(c) == first);
}

// ---- Rotary embedding

struct RotaryCase {
  std::size_t batch, length, heads, kv_heads, head;
  double theta = 10000;
  std::size_t row = (heads + 2 * kv_heads) * head;
  std::vector<float> x = normal(batch * length * row, 1), gradient = normal(batch * length * row, 2);
};

// A head's elements i and i + head / 2 are a complex number, which is multiplied by that of its angle.
template <typename F>
Doubles turned(const RotaryCase& c, Doubles x, const F& multiply) {
  const std::size_t half = c.head / 2;
  for (std::size_t row = 0; row < c.batch * c.length; ++row) {
    for (std::size_t head = 0; head < c.heads + c.kv_heads; ++head) {
      for (std::size_t i = 0; i < half; ++i) {
        double& a = x[row * c.row + head * c.head + i];
        double& b = x[row * c.row + head * c.head + half + i];
        const double frequency =
            1 / std::pow(c.theta, 2 * static_cast<double>(i) / static_cast<double>(c.head));
        const auto product =
            multiply(std::complex(a, b), std::polar(1.0, static_cast<double>(row % c.length) * frequency));
        a = product.real();
        b = product.imag();
      }
    }
  }
  return x;
}
Doubles rotary(const RotaryCase& c, const Doubles& x) {
  return turned(c, x, [](auto z, auto angle) { return z * angle; });
}
// The transpose of a rotation's matrix.
Doubles rotary_gradient(const RotaryCase& c, const Doubles& gradient) {
  return turned(c, gradient, [](auto z, auto angle) { return z * std::conj(angle); });
}

// A position's cosines, then its sines.
std::vector<float> rotary_table(const RotaryCase& c) {
  std::vector<float> table;
  for (std::size_t position = 0; position < c.length; ++position) {
    for (const bool sines : {false, true}) {
      for (std::size_t i = 0; i < c.head / 2; ++i) {
        const double angle = static_cast<double>(position) *
                             std::pow(c.theta, -2 * static_cast<double>(i) / static_cast<double>(c.head));
        table.push_back(static_cast<float>(sines ? std::sin(angle) : std::cos(angle)));
      }
    }
  }
  return table;
}

struct RotaryResult {
  std::vector<float> out, gradient;
  bool operator==(const RotaryResult&) const = default;
};

template <typename T>
RotaryResult rotary_on_gpu(const RotaryCase& c) {
  const Buffer<float> table{rotary_table(c)};
  const Buffer<T> x{rounded<T>(c.x)}, gradient{rounded<T>(c.gradient)};
  Buffer<T> out{c.x.size()};
  cuda::Rotary<T> rotary{.x = x.data(),
                         .out = out.data(),
                         .table = table.data(),
                         .batch = static_cast<std::int64_t>(c.batch),
                         .length = static_cast<std::int64_t>(c.length),
                         .heads = static_cast<int>(c.heads),
                         .kv_heads = static_cast<int>(c.kv_heads),
                         .head = static_cast<int>(c.head)};
  cuda::rotary_forward(rotary, nullptr);
  rotary.x = rotary.out = gradient.data();  // in place
  cuda::rotary_backward(rotary, nullptr);
  return {widened(out.read()), widened(gradient.read())};
}

template <typename T>
void expect_rotary(const RotaryCase& c) {
  SCOPED_TRACE(testing::Message() << c.batch << " x " << c.length << " with " << c.heads << " + 2 x "
                                  << c.kv_heads << " heads of " << c.head);
  const RotaryResult result = rotary_on_gpu<T>(c);
  expect_near(result.out, rotary(c, seen<T>(c.x)), kRounding<T>);
  expect_near(result.gradient, rotary_gradient(c, seen<T>(c.gradient)), kRounding<T>);
  // v stays as it is.
  const std::vector<float> before = widened(rounded<T>(c.x));
  const std::size_t turned_part = (c.heads + c.kv_heads) * c.head;
  for (std::size_t at = 0; at < before.size(); at += c.row) {
    for (std::size_t i = turned_part; i < c.row; ++i) ASSERT_EQ(result.out[at + i], before[at + i]);
  }
}

TYPED_TEST(LlamaOnGpu, RotaryAndItsGradient) {
  for (const std::size_t head : {2, 20, 64, 80, 128}) {
    expect_rotary<TypeParam>({.batch = 3, .length = 17, .heads = 4, .kv_heads = 4, .head = head});
    expect_rotary<TypeParam>({.batch = 2, .length = 33, .heads = 9, .kv_heads = 3, .head = head});
    expect_rotary<TypeParam>({.batch = 1, .length = 1, .heads = 1, .kv_heads = 1, .head = head});
  }
}

TYPED_TEST(LlamaOnGpu, RotaryOfLongSequencesAndOfMany) {
  expect_rotary<TypeParam>(
      {.batch = 1, .length = 70001, .heads = 1, .kv_heads = 1, .head = 16, .theta = 500000});
  expect_rotary<TypeParam>({.batch = 70001, .length = 2, .heads = 1, .kv_heads = 1, .head = 6});
}

TYPED_TEST(LlamaOnGpu, RotaryHasTheSameBitsEveryTime) {
  const RotaryCase c{.batch = 2, .length = 100, .heads = 8, .kv_heads = 2, .head = 64};
  const RotaryResult first = rotary_on_gpu<TypeParam>(c);
  for (int time = 0; time < 3; ++time) EXPECT_TRUE(rotary_on_gpu<TypeParam>(c) == first);
}

}  // namespace
}  // namespace twobw::models
