// The kernels of a decoder's step against plain loops in double.
#include <cmath>
#include <type_traits>

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
    for (const auto& [in, columns] :
         {std::pair{8, 3}, {40, 17}, {64, 100}, {1000, 7}, {1032, 9}, {2048, 33}, {520, 2400}}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << in << " x " << columns);
      expect_product<TypeParam>(rows, in, columns, false);
      expect_product<TypeParam>(rows, in, columns, true);
    }
  }
  // More than a block has room for at once.
  expect_product<TypeParam>(kMostFewRows, 16384, 5, true);
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
    for (const auto& [in, columns] :
         {std::pair{8, 3}, {40, 17}, {64, 300}, {1000, 7}, {520, 700}, {1256, 33}}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << in << " x " << columns);
      expect_normed<TypeParam>(rows, in, columns, false);
      expect_normed<TypeParam>(rows, in, columns, true);
    }
  }
  EXPECT_FALSE(few_rows_fits<TypeParam>(8, 1 << 20, true));
}

struct Heads {
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
void expect_attention(const Heads& shape, bool turns) {
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
  for (const Heads& shape : {Heads{1, 1, 1, 8, 1, 4, {0}},
                             {1, 4, 2, 64, 3, 300, {299}},
                             {3, 6, 2, 20, 4, 50, {0, 17, 49}},
                             {2, 3, 3, 128, 7, 100, {5, 64}},
                             {1, 2, 1, 256, 2, 33, {32}},
                             {1, 2, 1, 300, 5, 9, {3}},
                             {2, 7, 1, 64, 32, 700, {699, 63}},
                             {2, 4, 1, 32, 5, 400, {64, 128}},
                             {1, 12, 4, 128, 4, 260, {255}},
                             {1, 8, 2, 512, 2, 130, {129}},
                             {1, 3, 3, 48, 3, 200, {190}},
                             {1, 2, 2, 100, 4, 300, {256}},
                             {2, 4, 1, 64, 7, 392, {257, 391}},
                             {1, 4, 1, 128, 32, 2048, {2047}},
                             {2, 4, 2, 64, 32, 2100, {2099, 200}},
                             {1, 2, 2, 128, 32, 2049, {600}}}) {
    SCOPED_TRACE(testing::Message() << shape.rows << " rows, heads of " << shape.size << ", " << shape.queries
                                    << " for " << shape.keys);
    expect_attention<TypeParam>(shape, false);
    expect_attention<TypeParam>(shape, true);
  }
}

TEST(StepSplits, AreOfPlacesThatAreWorthABlock) {
  EXPECT_EQ(cached_attention_splits(1), 1);
  EXPECT_EQ(cached_attention_splits(64), 1);
  EXPECT_EQ(cached_attention_splits(65), 2);
  EXPECT_EQ(cached_attention_splits(1 << 20), 32);
}

// Tokens in the host's memory, which the GPU writes to.
class Told {
 public:
  explicit Told(int count) : count_(count) {
    void* host = nullptr;
    EXPECT_EQ(cudaHostAlloc(&host, count * sizeof(std::int64_t), cudaHostAllocMapped), cudaSuccess);
    host_ = static_cast<std::int64_t*>(host);
    std::fill_n(host_, count_, -1);
  }
  ~Told() { cudaFreeHost(host_); }
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;

  std::int64_t* on_gpu() const {
    void* pointer = nullptr;
    EXPECT_EQ(cudaHostGetDevicePointer(&pointer, host_, 0), cudaSuccess);
    return static_cast<std::int64_t*>(pointer);
  }
  // What the GPU has written, after it has ended; and -1 again.
  std::vector<std::int64_t> take() const {
    const std::vector<std::int64_t> all(host_, host_ + count_);
    std::fill_n(host_, count_, -1);
    return all;
  }

 private:
  int count_;
  std::int64_t* host_ = nullptr;
};

TYPED_TEST(StepsOnGpu, TheLikeliestIsTheFirstOfTheGreatest) {
  using T = TypeParam;
  for (const std::int64_t classes : {1, 7, 64, 1000, 128256}) {
    SCOPED_TRACE(classes);
    constexpr int kRows = 3;
    auto logits = normal(kRows * classes, 1);
    const std::int64_t middle = classes / 2;
    logits[middle] = logits[classes - 1] = 50;
    for (std::int64_t i = 0; i < classes; ++i) logits[classes + i] = i == 0 ? -0.0f : 0.0f;
    logits[2 * classes + middle] = NAN;
    const Buffer<T> on_logits{rounded<T>(logits)};
    const Buffer<std::int64_t> tokens(kRows), on_seen{{3, 8, 9}};
    const Buffer<unsigned long long> room(2 * kRows);
    const Told told(kRows);
    // Twice: what a step leaves behind must not disturb the next.
    for (int i = 0; i < 2; ++i) {
      take_likeliest<T>({.logits = on_logits.data(),
                         .tokens = tokens.data(),
                         .told = i == 0 ? told.on_gpu() : nullptr,
                         .seen = on_seen.data(),
                         .places = 10,
                         .room = room.data(),
                         .rows = kRows,
                         .classes = classes},
                        nullptr);
      EXPECT_EQ(tokens.read(), (std::vector<std::int64_t>{middle, 0, middle}));
      EXPECT_EQ(told.take(), i == 0 ? (std::vector<std::int64_t>{middle, 0, middle})
                                    : (std::vector<std::int64_t>{-1, -1, -1}));
    }
    EXPECT_EQ(on_seen.read(), (std::vector<std::int64_t>{5, 9, 9}));
  }
}

// Two layers of a decoder with made-up weights, the buffers between its kernels shared by both.
template <typename T>
class Layers {
 public:
  static constexpr int kQueries = 8, kKeys = 2, kSize = 64, kWidth = kQueries * kSize, kHidden = 328,
                       kClasses = 1000, kPlaces = 200, kLayers = 2, kMultiprocessors = 132;
  static constexpr int kPacked = (kQueries + 2 * kKeys) * kSize;

  // With these rows of made-up ones.
  explicit Layers(std::vector<int> which)
      : rows_(static_cast<int>(which.size())),
        x_(rows_ * kWidth),
        stream_(rows_ * kWidth),
        packed_(rows_ * kPacked),
        mixed_(rows_ * kWidth),
        inner_(rows_ * kHidden),
        logits_(rows_ * kClasses),
        tokens_(rows_),
        seen_(rows_),
        room_(2 * rows_),
        arrived_(rows_ * kQueries),
        partial_(cached_attention_partials(rows_, kQueries, kSize, kSplits)),
        which_(std::move(which)) {
    std::vector<T> x;
    for (const int row : which_) {
      const auto of_x = rounded<T>(normal(kWidth, 100 + row));
      x.insert(x.end(), of_x.begin(), of_x.end());
      const auto of_kept = rounded<T>(normal(kKeys * kPlaces * kSize, 200 + row));
      kept_.insert(kept_.end(), of_kept.begin(), of_kept.end());
      places_.push_back((row * 67 + 30) % kPlaces);
    }
    x_.write(x);
    restart();
  }

  // As before the first step.
  void restart() {
    seen_.write(places_);
    for (Layer& layer : layers_) {
      layer.keys.write(kept_);
      layer.values.write(kept_);
    }
  }

  void step(cudaStream_t stream) {
    const T* x = x_.data();
    for (Layer& layer : layers_) {
      multiply({.x = x, .gain = layer.gain.data(), .weight = layer.in.data(), .out = packed_.data()}, kWidth,
               kPacked, stream);
      cached_attention<T>({.qkv = packed_.data(),
                           .keys = layer.keys.data(),
                           .values = layer.values.data(),
                           .seen = seen_.data(),
                           .out = mixed_.data(),
                           .partial = partial_.data(),
                           .arrived = arrived_.data(),
                           .rows = rows_,
                           .queries = kQueries,
                           .key_heads = kKeys,
                           .size = kSize,
                           .splits = kSplits,
                           .places = kPlaces},
                          stream);
      multiply({.x = mixed_.data(), .weight = layer.out.data(), .added = x, .out = stream_.data()}, kWidth,
               kWidth, stream);
      multiply({.x = stream_.data(),
                .gain = layer.gain.data(),
                .weight = layer.up.data(),
                .gated = true,
                .out = inner_.data()},
               kWidth, kHidden, stream);
      // Onto the stream itself.
      multiply(
          {.x = inner_.data(), .weight = layer.down.data(), .added = stream_.data(), .out = stream_.data()},
          kHidden, kWidth, stream);
      x = stream_.data();
    }
    multiply({.x = x, .gain = layers_[0].gain.data(), .weight = head_.data(), .out = logits_.data()}, kWidth,
             kClasses, stream);
    take_likeliest<T>({.logits = logits_.data(),
                       .tokens = tokens_.data(),
                       .seen = seen_.data(),
                       .places = kPlaces,
                       .room = room_.data(),
                       .rows = rows_,
                       .classes = kClasses},
                      stream);
  }

  std::vector<float> logits() const { return widened(logits_.read()); }
  std::vector<std::int64_t> tokens() const { return tokens_.read(); }
  std::vector<std::int64_t> seen() const { return seen_.read(); }
  // Keys of the last layer, which depend on all before it.
  std::vector<float> kept() const { return widened(layers_[kLayers - 1].keys.read()); }

 private:
  static constexpr int kSplits = 4;
  struct Layer {
    explicit Layer(const std::vector<int>& which, unsigned seed)
        : gain(rounded<T>(normal(kWidth, seed))),
          in(made_up(kPacked * kWidth, seed + 1)),
          out(made_up(kWidth * kWidth, seed + 2)),
          up(made_up(2 * kHidden * kWidth, seed + 3)),
          down(made_up(kWidth * kHidden, seed + 4)),
          keys(which.size() * kKeys * kPlaces * kSize),
          values(which.size() * kKeys * kPlaces * kSize) {}
    Buffer<T> gain, in, out, up, down, keys, values;
  };
  static std::vector<T> made_up(std::size_t count, unsigned seed) {
    return rounded<T>(normal(count, seed, 0.04f));
  }
  void multiply(FewRows<T> product, std::int64_t in, std::int64_t columns, cudaStream_t stream) const {
    product.rows = rows_;
    product.in = in;
    product.columns = columns;
    product.eps = 1e-5f;
    product.multiprocessors = kMultiprocessors;
    ASSERT_TRUE(few_rows_fits<T>(rows_, in, product.gain != nullptr));
    few_rows_product(product, stream);
  }

  int rows_;
  Buffer<T> x_, stream_, packed_, mixed_, inner_, logits_;
  Buffer<std::int64_t> tokens_, seen_;
  Buffer<unsigned long long> room_;
  Buffer<int> arrived_;
  Buffer<float> partial_;
  std::vector<int> which_;
  std::vector<T> kept_;
  std::vector<std::int64_t> places_;
  Layer layers_[kLayers] = {Layer(which_, 10), Layer(which_, 20)};
  Buffer<T> head_{made_up(kClasses * kWidth, 30)};
};

TYPED_TEST(StepsOnGpu, StepsInAGraphGiveTheBitsOfKernelsOneByOne) {
  for (const auto& which : {std::vector{0}, {1}, {0, 1, 2}, {0, 1, 2, 3, 4, 5, 6, 7}}) {
    SCOPED_TRACE(which.size());
    Layers<TypeParam> layers(which);
    layers.step(nullptr);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const auto logits = layers.logits();
    const auto tokens = layers.tokens();
    EXPECT_GT(*std::max_element(logits.begin(), logits.end()), 0);

    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    layers.step(stream);
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&ready, graph, 0), cudaSuccess);
    for (int i = 0; i < 20; ++i) {
      layers.restart();
      ASSERT_EQ(cudaGraphLaunch(ready, stream), cudaSuccess);
      ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      ASSERT_EQ(layers.logits(), logits) << "launch " << i;
      ASSERT_EQ(layers.tokens(), tokens) << "launch " << i;
    }
    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
  }
}

// The places that a step sees are those that the step before it in the graph has left.
TYPED_TEST(StepsOnGpu, SeveralStepsInAGraphGiveTheBitsOfStepsOneByOne) {
  constexpr int kSteps = 4;
  for (const auto& which : {std::vector{0}, {0, 1, 2, 3, 4, 5, 6, 7}}) {
    SCOPED_TRACE(which.size());
    Layers<TypeParam> layers(which);
    for (int i = 0; i < kSteps; ++i) {
      layers.step(nullptr);
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    }
    const auto logits = layers.logits();
    const auto places = layers.seen();
    const auto kept = layers.kept();

    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    for (int i = 0; i < kSteps; ++i) layers.step(stream);
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&ready, graph, 0), cudaSuccess);
    for (int i = 0; i < 20; ++i) {
      layers.restart();
      ASSERT_EQ(cudaGraphLaunch(ready, stream), cudaSuccess);
      ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      ASSERT_EQ(layers.logits(), logits) << "launch " << i;
      ASSERT_EQ(layers.seen(), places) << "launch " << i;
      ASSERT_EQ(layers.kept(), kept) << "launch " << i;
    }
    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
  }
}

TYPED_TEST(StepsOnGpu, ARowAloneGivesItsBitsAmongOthers) {
  using Of = Layers<TypeParam>;
  Of together({0, 1, 2, 3, 4, 5, 6, 7});
  together.step(nullptr);
  const auto all = together.logits();
  for (const int row : {0, 3, 7}) {
    Of alone({row});
    alone.step(nullptr);
    EXPECT_EQ(alone.logits(),
              std::vector<float>(all.begin() + row * Of::kClasses, all.begin() + (row + 1) * Of::kClasses))
        << "row " << row;
  }
}

// Rows of several packs a thread, read several at once where they are few.
TYPED_TEST(StepsOnGpu, ALongRowsProductDoesNotDependOnOtherRows) {
  using T = TypeParam;
  constexpr int kRows = kMostFewRows;
  constexpr std::int64_t kIn = std::is_same_v<T, float> ? 1256 : 4616, kColumns = 50;
  const Buffer<T> x{rounded<T>(normal(kRows * kIn, 1))}, gain{rounded<T>(normal(kIn, 2))},
      weight{rounded<T>(normal(2 * kColumns * kIn, 3))};
  const auto products = [&](int first, int rows, bool normed, bool gated) {
    Buffer<T> out(rows * kColumns);
    EXPECT_TRUE(few_rows_fits<T>(rows, kIn, normed));
    few_rows_product<T>({.x = x.data() + first * kIn,
                         .gain = normed ? gain.data() : nullptr,
                         .eps = 1e-5f,
                         .weight = weight.data(),
                         .gated = gated,
                         .out = out.data(),
                         .rows = rows,
                         .in = kIn,
                         .columns = kColumns,
                         .multiprocessors = 3},
                        nullptr);
    return widened(out.read());
  };
  for (const auto& [normed, gated] : {std::pair{false, false}, {true, false}, {true, true}}) {
    const auto all = products(0, kRows, normed, gated);
    for (const auto& [first, rows] : {std::pair{0, 1}, {7, 1}, {2, 2}, {3, 4}, {1, 5}}) {
      EXPECT_EQ(products(first, rows, normed, gated),
                std::vector<float>(all.begin() + first * kColumns, all.begin() + (first + rows) * kColumns))
          << rows << " rows from " << first << (normed ? ", normed" : "") << (gated ? ", gated" : "");
    }
  }
}

}  // namespace
}  // namespace twobw::models::cuda
