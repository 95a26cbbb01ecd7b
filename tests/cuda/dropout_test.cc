// The kernels of dropout: masks against those that a CPU draws, bit for bit, and the weights of attention
// against plain loops in double.
#include "core/base/dropout.h"

#include <cmath>

#include "buffer.h"
#include "engine/models/kernels_cuda.h"

namespace twobw::models {
namespace {

template <typename T>
class DropoutOnGpu : public CudaTest {};
using Types = testing::Types<float, __nv_bfloat16>;
TYPED_TEST_SUITE(DropoutOnGpu, Types);

using Doubles = std::vector<double>;

struct Shape {
  std::size_t n3, n2, n1, width;
  std::size_t rows() const { return n3 * n2 * n1; }
};

// One number an element, as core/base/dropout.h defines it.
std::vector<float> mask_on_cpu(const Shape& shape, std::uint64_t key, std::uint64_t site, double p) {
  std::vector<float> mask;
  for (std::size_t row = 0; row < shape.rows(); ++row) {
    const MaskRow place = mask_row(static_cast<std::int64_t>(row), static_cast<std::int64_t>(shape.n1),
                                   static_cast<std::int64_t>(shape.n2));
    for (std::size_t column = 0; column < shape.width; ++column) {
      float factors[4];
      dropout_factors(mask_key(key, site), place, static_cast<std::uint32_t>(column / 4), dropout_rate(p),
                      factors);
      mask.push_back(factors[column % 4]);
    }
  }
  return mask;
}

template <typename T>
cuda::Drop<T> drop_of(const Shape& shape, const cuda::Mask& mask) {
  return {.mask = mask,
          .rows = static_cast<std::int64_t>(shape.rows()),
          .n1 = static_cast<std::int64_t>(shape.n1),
          .n2 = static_cast<std::int64_t>(shape.n2),
          .width = static_cast<int>(shape.width)};
}

TYPED_TEST(DropoutOnGpu, MasksAreThoseOfTheCpu) {
  using T = TypeParam;
  Buffer<std::uint64_t> key(1);
  for (const Shape& shape : {Shape{1, 1, 1, 1}, Shape{1, 1, 3, 3}, Shape{1, 2, 5, 37}, Shape{3, 2, 7, 5},
                             Shape{1, 4, 33, 768}, Shape{2, 3, 16, 16}, Shape{1, 1, 1, 4099}}) {
    const Buffer<T> ones(rounded<T>(std::vector<float>(shape.rows() * shape.width, 1.0f)));
    Buffer<T> out(shape.rows() * shape.width);
    for (int microbatch = 0; microbatch < 4; ++microbatch) {
      for (const double p : {0.1, 0.5, 0.9}) {
        SCOPED_TRACE(testing::Message() << shape.rows() << " rows of " << shape.width << ", " << p);
        // The key lies in device memory, and is another one for every microbatch.
        const std::uint64_t value = dropout_key(3, 100, microbatch), site = dropout_site(microbatch, 1);
        ASSERT_EQ(cudaMemcpy(key.data(), &value, sizeof(value), cudaMemcpyHostToDevice), cudaSuccess);
        auto drop = drop_of<T>(shape, {.key = key.data(), .site = site, .rate = dropout_rate(p)});
        drop.x = ones.data();
        drop.out = out.data();
        cuda::drop(drop, nullptr);
        EXPECT_EQ(widened(out.read()), widened(rounded<T>(mask_on_cpu(shape, value, site, p))));
      }
    }
  }
}

TYPED_TEST(DropoutOnGpu, AddsToTheStream) {
  using T = TypeParam;
  for (const std::size_t width : {64u, 37u}) {
    const Shape shape{1, 2, 5, width};
    const std::size_t count = shape.rows() * width;
    const std::vector<float> x = normal(count, 1), residual = normal(count, 2);
    const std::vector<float> mask = mask_on_cpu(shape, 11, 12, 0.3);
    const Doubles seen_x = seen<T>(x), seen_residual = seen<T>(residual);
    Doubles expected;
    for (std::size_t i = 0; i < count; ++i) expected.push_back(seen_residual[i] + seen_x[i] * mask[i]);
    const Buffer<std::uint64_t> key(std::vector<std::uint64_t>{11});
    const Buffer<T> on_x(rounded<T>(x)), onto(rounded<T>(residual));
    auto drop = drop_of<T>(shape, {.key = key.data(), .site = 12, .rate = dropout_rate(0.3)});
    drop.x = on_x.data();
    drop.residual = drop.out = onto.data();  // in its place
    cuda::drop(drop, nullptr);
    expect_near(widened(onto.read()), expected, kRounding<T>);
  }
}

struct Case {
  std::size_t batch, heads, length;
  bool causal = false;
  std::vector<std::int64_t> lengths{};

  Shape shape() const { return {batch, heads, length, length}; }
  std::size_t seen(std::size_t row) const {
    if (causal) return row % length + 1;
    if (lengths.empty()) return length;
    const std::int64_t end = lengths[row / length / heads];
    return static_cast<std::size_t>(std::max<std::int64_t>(end, 1));
  }
};

const std::vector<Case> kCases = {{2, 3, 64, true},           {1, 2, 37, true},
                                  {2, 2, 200, false},         {3, 2, 36, false, {36, 5, 0}},
                                  {2, 1, 35, false, {35, 1}}, {1, 1, 1, true}};
constexpr float kScale = 0.25f;

Doubles softmax(const Case& c, const Doubles& scores) {
  Doubles weights(scores.size(), 0.0);
  for (std::size_t row = 0; row < c.shape().rows(); ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < c.seen(row); ++i) {
      weights[row * c.length + i] = std::exp(kScale * scores[row * c.length + i]);
      sum += weights[row * c.length + i];
    }
    for (std::size_t i = 0; i < c.seen(row); ++i) weights[row * c.length + i] /= sum;
  }
  return weights;
}

template <typename T>
cuda::AttentionWeights<T> attention_of(const Case& c, const Buffer<std::uint64_t>& key) {
  return {.causal = c.causal,
          .mask = {.key = key.data(), .site = 12, .rate = dropout_rate(0.3)},
          .batch = static_cast<std::int64_t>(c.batch),
          .heads = static_cast<int>(c.heads),
          .length = static_cast<int>(c.length),
          .scale = kScale};
}

TYPED_TEST(DropoutOnGpu, WeightsAreTheSoftmaxAndTheMaskOfIt) {
  using T = TypeParam;
  const Buffer<std::uint64_t> key(std::vector<std::uint64_t>{11});
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::Message() << c.length << (c.causal ? ", causal" : "") << c.lengths.size());
    const std::vector<float> scores = normal(c.shape().rows() * c.length, 1, 8);
    const std::vector<float> mask = mask_on_cpu(c.shape(), 11, 12, 0.3);
    const Doubles weights = softmax(c, seen<T>(scores));
    Doubles dropped;
    for (std::size_t i = 0; i < weights.size(); ++i) dropped.push_back(weights[i] * mask[i]);
    const Buffer<T> on_scores(rounded<T>(scores)), on_dropped(scores.size());
    const Buffer<std::int64_t> lengths(c.lengths);
    auto attention = attention_of<T>(c, key);
    attention.weights = on_scores.data();
    attention.dropped = on_dropped.data();
    attention.lengths = c.lengths.empty() ? nullptr : lengths.data();
    cuda::attention_weights_forward(attention, nullptr);
    expect_near(widened(on_scores.read()), weights, kRounding<T>);
    expect_near(widened(on_dropped.read()), dropped, kRounding<T>);
  }
}

TYPED_TEST(DropoutOnGpu, GradientsOfScoresAreThoseOfTheFormula) {
  using T = TypeParam;
  const Buffer<std::uint64_t> key(std::vector<std::uint64_t>{11});
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::Message() << c.length << (c.causal ? ", causal" : "") << c.lengths.size());
    const std::size_t count = c.shape().rows() * c.length;
    std::vector<float> weights;
    for (const double weight : softmax(c, seen<float>(normal(count, 1, 8))))
      weights.push_back(static_cast<float>(weight));
    const std::vector<float> gradient = normal(count, 2), mask = mask_on_cpu(c.shape(), 11, 12, 0.3);
    const Doubles w = seen<T>(weights), g = seen<T>(gradient);
    Doubles expected(count);
    for (std::size_t row = 0; row < count; row += c.length) {
      double sum = 0;
      for (std::size_t i = row; i < row + c.length; ++i) sum += w[i] * g[i] * mask[i];
      for (std::size_t i = row; i < row + c.length; ++i) expected[i] = kScale * w[i] * (g[i] * mask[i] - sum);
    }
    const Buffer<T> on_weights(rounded<T>(weights)), on_gradient(rounded<T>(gradient));
    auto attention = attention_of<T>(c, key);
    attention.weights = on_weights.data();
    attention.gradient = on_gradient.data();
    cuda::attention_weights_backward(attention, nullptr);
    expect_near(widened(on_gradient.read()), expected, kRounding<T>, kScale);
  }
}

}  // namespace
}  // namespace twobw::models
