// Matrix products against plain loops in double.
#include "engine/models/cuda/matmul.h"

#include <array>
#include <memory>

#include "buffer.h"
#include "engine/device/gpu.h"

namespace twobw::models::cuda {
namespace {

constexpr std::size_t kWorkspace = 32 << 20;

// Registers the default stream as a worker's.
class ProductsOnGpu : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    int multiprocessors = 0;
    ASSERT_EQ(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0), cudaSuccess);
    workspace_ = std::make_unique<Buffer<char>>(kWorkspace);
    device::register_gpu_stream(nullptr, {.gpu = 0,
                                          .product_multiprocessors = multiprocessors,
                                          .workspace = workspace_->data(),
                                          .workspace_bytes = kWorkspace});
  }
  void TearDown() override {
    CudaTest::TearDown();
    device::forget_gpu_stream(nullptr);
  }

 private:
  std::unique_ptr<Buffer<char>> workspace_;
};

struct Shape {
  std::int64_t m, n, k;
};
// Whole tiles, odd numbers, and a single row, column or term.
constexpr std::array<Shape, 6> kShapes = {
    {{128, 64, 256}, {37, 29, 53}, {1, 40, 24}, {40, 1, 24}, {24, 40, 1}, {50, 257, 64}}};

enum class Add { kNothing, kBias, kOther, kItself, kBiasAndOther };
constexpr std::array kAdds = {Add::kNothing, Add::kBias, Add::kOther, Add::kItself, Add::kBiasAndOther};

template <typename T>
constexpr Type kType = Type::kFloat;
template <>
constexpr Type kType<__nv_bfloat16> = Type::kBfloat16;
template <>
constexpr Type kType<__half> = Type::kHalf;

// Rows of `out` are `gap` elements further apart than they are long.
template <typename In, typename Out>
void expect_product(const Shape& shape, bool a_transposed, bool b_transposed, Add add, std::int64_t gap) {
  const auto [m, n, k] = shape;
  const std::int64_t out_stride = n + gap;
  const std::vector<float> a = normal(m * k, 1), b = normal(k * n, 2), bias = normal(n, 3),
                           other = normal(m * n, 4), before = normal(m * out_stride, 5);
  const Buffer<In> on_a{rounded<In>(a)}, on_b{rounded<In>(b)};
  const Buffer<Out> on_bias{rounded<Out>(bias)}, on_other{rounded<Out>(other)};
  Buffer<Out> out{rounded<Out>(before)};
  const bool with_bias = add == Add::kBias || add == Add::kBiasAndOther;
  const bool with_other = add == Add::kOther || add == Add::kBiasAndOther;
  const float beta = add == Add::kItself ? 0.5f : 1.0f;
  multiply({.m = m,
            .n = n,
            .k = k,
            .a = {.data = on_a.data(), .stride = a_transposed ? m : k, .transposed = a_transposed},
            .b = {.data = on_b.data(), .stride = b_transposed ? k : n, .transposed = b_transposed},
            .in = kType<In>,
            .type = kType<Out>,
            .out = out.data(),
            .out_stride = out_stride,
            .added = with_other            ? on_other.data()
                     : add == Add::kItself ? out.data()
                                           : nullptr,
            .added_stride = with_other ? n : out_stride,
            .beta = beta,
            .bias = with_bias ? on_bias.data() : nullptr},
           nullptr);

  const auto da = seen<In>(a), db = seen<In>(b), dbias = seen<Out>(bias), dother = seen<Out>(other);
  std::vector<double> expected = seen<Out>(before);  // stays in the gaps
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = add == Add::kItself ? beta * expected[i * out_stride + j] : 0.0;
      if (with_bias) sum += dbias[j];
      if (with_other) sum += dother[i * n + j];
      for (std::int64_t l = 0; l < k; ++l)
        sum += da[a_transposed ? l * m + i : i * k + l] * db[b_transposed ? j * k + l : l * n + j];
      expected[i * out_stride + j] = sum;
    }
  }
  expect_near(widened(out.read()), expected, kRounding<Out>);
}

template <typename In, typename Out>
void expect_products() {
  for (const Shape& shape : kShapes) {
    for (const bool a_transposed : {false, true}) {
      for (const bool b_transposed : {false, true}) {
        for (const Add add : kAdds) {
          const bool with_bias = add == Add::kBias || add == Add::kBiasAndOther;
          if (with_bias && kType<In> != kType<Out>) continue;  // nobody needs it
          for (const std::int64_t gap : {0, 7}) {
            SCOPED_TRACE(testing::Message()
                         << shape.m << " x " << shape.k << " x " << shape.n << ", transposed " << a_transposed
                         << b_transposed << ", added " << static_cast<int>(add) << ", gap " << gap);
            expect_product<In, Out>(shape, a_transposed, b_transposed, add, gap);
          }
        }
      }
    }
  }
}

TEST_F(ProductsOnGpu, OfFloat) {
  expect_products<float, float>();
}
TEST_F(ProductsOnGpu, OfBfloat16) {
  expect_products<__nv_bfloat16, __nv_bfloat16>();
}
TEST_F(ProductsOnGpu, OfBfloat16IntoFloat) {
  expect_products<__nv_bfloat16, float>();
}
TEST_F(ProductsOnGpu, OfHalf) {
  expect_products<__half, __half>();
}
TEST_F(ProductsOnGpu, OfHalfIntoFloat) {
  expect_products<__half, float>();
}

// One product per attention head, on packed queries, keys and values: the scores, and a mix of values,
// packed again.
template <typename T>
void expect_batch(std::int64_t heads, std::int64_t length, std::int64_t size) {
  const std::int64_t row = 3 * heads * size;
  const std::vector<float> packed = normal(length * row, 1);
  const Buffer<T> on_packed{rounded<T>(packed)};
  Buffer<T> scores(heads * length * length), mixed(length * row);
  multiply({.m = length,
            .n = length,
            .k = size,
            .a = {.data = on_packed.data(), .stride = row, .apart = size},
            .b = {.data = on_packed.data() + heads * size, .stride = row, .transposed = true, .apart = size},
            .in = kType<T>,
            .type = kType<T>,
            .out = scores.data(),
            .out_stride = length,
            .batch = static_cast<int>(heads),
            .out_apart = length * length},
           nullptr);
  const std::vector<double> from = seen<T>(packed);
  std::vector<double> expected;
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t i = 0; i < length; ++i) {
      for (std::int64_t j = 0; j < length; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < size; ++l)
          sum += from[i * row + head * size + l] * from[j * row + (heads + head) * size + l];
        expected.push_back(sum);
      }
    }
  }
  const std::vector<float> found = widened(scores.read());
  expect_near(found, expected, kRounding<T>);

  multiply({.m = length,
            .n = size,
            .k = length,
            .a = {.data = scores.data(), .stride = length, .transposed = true, .apart = length * length},
            .b = {.data = on_packed.data() + 2 * heads * size, .stride = row, .apart = size},
            .in = kType<T>,
            .type = kType<T>,
            .out = mixed.data() + heads * size,
            .out_stride = row,
            .batch = static_cast<int>(heads),
            .out_apart = size},
           nullptr);
  std::vector<double> into(length * row, 0.0);  // the rest must not change
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t i = 0; i < length; ++i) {
      for (std::int64_t l = 0; l < size; ++l) {
        double sum = 0;
        for (std::int64_t j = 0; j < length; ++j)
          sum += found[(head * length + j) * length + i] * from[j * row + (2 * heads + head) * size + l];
        into[i * row + (heads + head) * size + l] = sum;
      }
    }
  }
  expect_near(widened(mixed.read()), into, kRounding<T>);
}

TEST_F(ProductsOnGpu, OfABatch) {
  for (const auto& [heads, length, size] :
       {std::array<std::int64_t, 3>{4, 64, 32}, {2, 37, 5}, {3, 40, 64}, {1, 16, 8}, {2, 1, 3}}) {
    SCOPED_TRACE(testing::Message() << heads << " heads of " << size << ", " << length << " tokens");
    expect_batch<float>(heads, length, size);
    expect_batch<__nv_bfloat16>(heads, length, size);
  }
}

}  // namespace
}  // namespace twobw::models::cuda
