// The kernels of a decoder's step against plain loops in double.
#include <cmath>

#include "buffer.h"
#include "models/decode_kernels_cuda.h"

namespace twobw::models::cuda {
namespace {

template <typename T>
class StepsOnGpu : public CudaTest {};
using StepTypes = testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(StepsOnGpu, StepTypes);

template <typename T>
void expect_product(int rows, std::int64_t in, std::int64_t columns, bool adds) {
  const auto x = normal(rows * in, 1), weight = normal(columns * in, 2), bias = normal(columns, 3),
             added = normal(rows * columns, 4);
  const Buffer<T> on_x{rounded<T>(x)}, on_weight{rounded<T>(weight)}, on_bias{rounded<T>(bias)},
      on_added{rounded<T>(added)};
  Buffer<T> out(rows * columns);
  ASSERT_TRUE(few_rows_fits<T>(rows, in));
  few_rows_product<T>({.x = on_x.data(),
                       .weight = on_weight.data(),
                       .bias = adds ? on_bias.data() : nullptr,
                       .added = adds ? on_added.data() : nullptr,
                       .out = out.data(),
                       .rows = rows,
                       .in = in,
                       .columns = columns,
                       .multiprocessors = 132},
                      nullptr);
  const auto dx = seen<T>(x), dw = seen<T>(weight), db = seen<T>(bias), da = seen<T>(added);
  std::vector<double> expected(rows * columns);
  for (int row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      double sum = adds ? db[column] + da[row * columns + column] : 0.0;
      for (std::int64_t i = 0; i < in; ++i) sum += dx[row * in + i] * dw[column * in + i];
      expected[row * columns + column] = sum;
    }
  }
  expect_near(widened(out.read()), expected, kRounding<T>);
}

TYPED_TEST(StepsOnGpu, ProductsOfFewRows) {
  for (int rows = 1; rows <= kMostFewRows; ++rows) {
    for (const auto& [in, columns] : {std::pair{8, 3}, {64, 100}, {1000, 7}, {2048, 33}, {520, 5000}}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << in << " x " << columns);
      expect_product<TypeParam>(rows, in, columns, false);
      expect_product<TypeParam>(rows, in, columns, true);
    }
  }
  EXPECT_FALSE(few_rows_fits<TypeParam>(9, 64));
  EXPECT_FALSE(few_rows_fits<TypeParam>(1, 63));
}

// The same of rows that are normed first, and gated or not. What is rounded on the way is rounded here too.
template <typename T>
void expect_normed(int rows, std::int64_t in, std::int64_t columns, bool gated) {
  constexpr double kEps = 1e-2;
  const std::int64_t all = gated ? 2 * columns : columns;
  const auto x = normal(rows * in, 1), gain = normal(in, 2), weight = normal(all * in, 3),
             bias = normal(columns, 4);
  const Buffer<T> on_x{rounded<T>(x)}, on_gain{rounded<T>(gain)}, on_weight{rounded<T>(weight)},
      on_bias{rounded<T>(bias)};
  Buffer<T> out(rows * columns);
  ASSERT_TRUE(few_rows_fits<T>(rows, in, true));
  few_rows_product<T>({.x = on_x.data(),
                       .gain = on_gain.data(),
                       .eps = static_cast<float>(kEps),
                       .weight = on_weight.data(),
                       .gated = gated,
                       .bias = gated ? nullptr : on_bias.data(),
                       .out = out.data(),
                       .rows = rows,
                       .in = in,
                       .columns = columns,
                       .multiprocessors = 7},
                      nullptr);
  const auto dx = seen<T>(x), dg = seen<T>(gain), dw = seen<T>(weight), db = seen<T>(bias);
  std::vector<double> expected(rows * columns);
  for (int row = 0; row < rows; ++row) {
    double square = 0;
    for (std::int64_t i = 0; i < in; ++i) square += dx[row * in + i] * dx[row * in + i];
    std::vector<float> normed;
    for (std::int64_t i = 0; i < in; ++i)
      normed.push_back(
          static_cast<float>(dx[row * in + i] / std::sqrt(square / static_cast<double>(in) + kEps) * dg[i]));
    const auto dn = seen<T>(normed);
    const auto product = [&](std::int64_t column) {
      double sum = 0;
      for (std::int64_t i = 0; i < in; ++i) sum += dn[i] * dw[column * in + i];
      return sum;
    };
    for (std::int64_t column = 0; column < columns; ++column) {
      const double gate = product(column);
      expected[row * columns + column] =
          gated ? gate / (1 + std::exp(-gate)) * product(columns + column) : gate + db[column];
    }
  }
  // A product of two that are rounded.
  expect_near(widened(out.read()), expected, (gated ? 2 : 1) * kRounding<T>);
}

TYPED_TEST(StepsOnGpu, ProductsOfRowsThatAreNormedFirst) {
  for (const int rows : {1, 2, 3, 5, 8}) {
    for (const auto& [in, columns] : {std::pair{8, 3}, {64, 300}, {1000, 7}, {520, 700}}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << in << " x " << columns);
      expect_normed<TypeParam>(rows, in, columns, false);
      expect_normed<TypeParam>(rows, in, columns, true);
    }
  }
  EXPECT_FALSE(few_rows_fits<TypeParam>(8, 8192, true));
}

struct Shape {
  int rows, queries, keys, size, splits;
  std::int64_t places;
  std::vector<std::int64_t> seen;
};

// Element i of a head turned as a complex number, rounded as the kernel does.
template <typename T>
double turned(const std::vector<double>& values, std::int64_t head, int i, int size,
              const std::vector<float>& angles, std::int64_t place) {
  const int half = size / 2, angle = i % half;
  const double a = values[head + angle], b = values[head + half + angle];
  const double cosine = angles[place * size + angle], sine = angles[place * size + half + angle];
  return seen<T>({static_cast<float>(i < half ? a * cosine - b * sine : b * cosine + a * sine)})[0];
}

template <typename T>
void expect_attention(const Shape& shape, bool turns) {
  const auto& [rows, queries, keys, size, splits, places, places_seen] = shape;
  const std::int64_t width = static_cast<std::int64_t>(queries + 2 * keys) * size;
  const auto qkv = normal(rows * width, 1), old_keys = normal(rows * keys * places * size, 2),
             old_values = normal(rows * keys * places * size, 3);
  const Buffer<T> on_qkv{rounded<T>(qkv)};
  Buffer<T> on_keys{rounded<T>(old_keys)}, on_values{rounded<T>(old_values)}, out(rows * queries * size);
  const Buffer<std::int64_t> on_seen{places_seen};
  Buffer<float> partial(cached_attention_partials(rows, queries, size, splits));
  Buffer<int> arrived(rows * queries);
  const auto angles = normal(places * size, 4);
  const Buffer<float> on_angles{angles};
  // Twice: what a step leaves behind must not disturb the next.
  for (int i = 0; i < 2; ++i)
    cached_attention<T>({.qkv = on_qkv.data(),
                         .keys = on_keys.data(),
                         .values = on_values.data(),
                         .seen = on_seen.data(),
                         .angles = turns ? on_angles.data() : nullptr,
                         .out = out.data(),
                         .partial = partial.data(),
                         .arrived = arrived.data(),
                         .rows = rows,
                         .queries = queries,
                         .key_heads = keys,
                         .size = size,
                         .splits = splits,
                         .places = places},
                        nullptr);
  auto dk = seen<T>(old_keys), dv = seen<T>(old_values);
  auto dq = seen<T>(qkv);
  for (int row = 0; turns && row < rows; ++row) {
    const auto before = dq;
    for (int i = 0; i < (queries + keys) * size; ++i) {
      dq[row * width + i] =
          turned<T>(before, row * width + i / size * size, i % size, size, angles, places_seen[row]);
    }
  }
  for (int row = 0; row < rows; ++row) {
    for (int i = 0; i < keys * size; ++i) {
      const std::int64_t to = ((row * keys + i / size) * places + places_seen[row]) * size + i % size;
      dk[to] = dq[row * width + queries * size + i];
      dv[to] = dq[row * width + (queries + keys) * size + i];
    }
  }
  std::vector<double> expected(rows * queries * size);
  for (int row = 0; row < rows; ++row) {
    for (int head = 0; head < queries; ++head) {
      const std::int64_t kept = (row * keys + head / (queries / keys)) * places * size;
      std::vector<double> weights;
      double top = -INFINITY, sum = 0;
      for (std::int64_t place = 0; place <= places_seen[row]; ++place) {
        double score = 0;
        for (int i = 0; i < size; ++i)
          score += dq[row * width + head * size + i] * dk[kept + place * size + i];
        weights.push_back(score / std::sqrt(size));
        top = std::max(top, weights.back());
      }
      for (double& weight : weights) sum += weight = std::exp(weight - top);
      for (std::size_t place = 0; place < weights.size(); ++place) {
        for (int i = 0; i < size; ++i)
          expected[(row * queries + head) * size + i] += weights[place] / sum * dv[kept + place * size + i];
      }
    }
  }
  expect_near(widened(out.read()), expected, kRounding<T>);
  expect_near(widened(on_keys.read()), dk, kRounding<T>);
  expect_near(widened(on_values.read()), dv, kRounding<T>);
}

TYPED_TEST(StepsOnGpu, AttentionToWhatIsKept) {
  for (const Shape& shape : {Shape{1, 1, 1, 8, 1, 4, {0}},
                             {1, 4, 2, 64, 3, 300, {299}},
                             {3, 6, 2, 20, 4, 50, {0, 17, 49}},
                             {2, 3, 3, 128, 7, 100, {5, 64}},
                             {1, 2, 1, 256, 2, 33, {32}},
                             {1, 2, 1, 300, 5, 9, {3}}}) {
    SCOPED_TRACE(testing::Message() << shape.rows << " rows, heads of " << shape.size);
    expect_attention<TypeParam>(shape, false);
    expect_attention<TypeParam>(shape, true);
  }
}

TEST(StepSplits, KeepAllMultiprocessorsBusyWithoutEmptyBlocks) {
  EXPECT_EQ(cached_attention_splits(1, 32, 2048, 132), 17);
  EXPECT_EQ(cached_attention_splits(1, 32, 40, 132), 2);
  EXPECT_EQ(cached_attention_splits(8, 96, 2048, 132), 1);
}

}  // namespace
}  // namespace twobw::models::cuda
