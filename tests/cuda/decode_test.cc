// The kernels of a decoder's step against plain loops in double.
#include <cmath>

#include "buffer.h"
#include "models/decode_kernels_cuda.h"

namespace twobw::models::cuda {
namespace {

template <typename T>
class StepsOnGpu : public CudaTest {};
using StepTypes = testing::Types<float, __nv_bfloat16>;
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

struct Shape {
  int rows, queries, keys, size, splits;
  std::int64_t places;
  std::vector<std::int64_t> seen;
};

template <typename T>
void expect_attention(const Shape& shape) {
  const auto& [rows, queries, keys, size, splits, places, places_seen] = shape;
  const std::int64_t width = static_cast<std::int64_t>(queries + 2 * keys) * size;
  const auto qkv = normal(rows * width, 1), old_keys = normal(rows * keys * places * size, 2),
             old_values = normal(rows * keys * places * size, 3);
  const Buffer<T> on_qkv{rounded<T>(qkv)};
  Buffer<T> on_keys{rounded<T>(old_keys)}, on_values{rounded<T>(old_values)}, out(rows * queries * size);
  const Buffer<std::int64_t> on_seen{places_seen};
  Buffer<float> partial(cached_attention_partials(rows, queries, size, splits));
  cached_attention<T>({.qkv = on_qkv.data(),
                       .keys = on_keys.data(),
                       .values = on_values.data(),
                       .seen = on_seen.data(),
                       .out = out.data(),
                       .partial = partial.data(),
                       .rows = rows,
                       .queries = queries,
                       .key_heads = keys,
                       .size = size,
                       .splits = splits,
                       .places = places},
                      nullptr);
  auto dk = seen<T>(old_keys), dv = seen<T>(old_values);
  const auto dq = seen<T>(qkv);
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
    expect_attention<TypeParam>(shape);
  }
}

TEST(StepSplits, KeepAllMultiprocessorsBusyWithoutEmptyBlocks) {
  EXPECT_EQ(cached_attention_splits(1, 32, 2048, 132), 17);
  EXPECT_EQ(cached_attention_splits(1, 32, 40, 132), 2);
  EXPECT_EQ(cached_attention_splits(8, 96, 2048, 132), 1);
}

}  // namespace
}  // namespace twobw::models::cuda
