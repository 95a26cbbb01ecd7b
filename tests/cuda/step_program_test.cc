// Steps of a decoder in one kernel: the bits of kernels one by one.
#include "models/cuda/step_program.h"

#include <cstdint>
#include <memory>
#include <string>

#include "buffer.h"
#include "models/kernels_cuda.h"

namespace twobw::models::cuda {
namespace {

int multiprocessors_here() {
  int count = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0), cudaSuccess);
  return count;
}

struct StepShape {
  int rows = 1, queries = 4, keys = 2, size = 64, splits = 1;
  std::int64_t places = 200, seen = 30;  // of the first row; the others are further on
  bool biased = false, turns = false;
  int width = 256, hidden = 328, classes = 1000;
  int multiprocessors = 0;  // 0: all
  int packed() const { return (queries + 2 * keys) * size; }
  int mixed() const { return queries * size; }
};

// A decoder of two layers with made-up weights, which reads tokens and leaves the next; the buffers between
// its kernels are shared by both layers.
template <typename T>
class SmallDecoder {
 public:
  explicit SmallDecoder(const StepShape& shape)
      : shape_(shape),
        stream_(shape.rows * shape.width),
        packed_(shape.rows * shape.packed()),
        mixed_(shape.rows * shape.mixed()),
        inner_(shape.rows * shape.hidden),
        logits_(shape.rows * shape.classes),
        tokens_(shape.rows),
        seen_(shape.rows),
        room_(2 * shape.rows),
        arrived_(shape.rows * shape.queries),
        partial_(cached_attention_partials(shape.rows, shape.queries, shape.size, shape.splits)),
        angles_(normal(shape.places * shape.size, 5)),
        embedding_(rounded<T>(normal(shape.classes * shape.width, 6))),
        head_(made_up(shape.classes * shape.width, 7)),
        kept_(rounded<T>(normal(shape.rows * shape.keys * shape.places * shape.size, 8))) {
    for (unsigned layer = 0; layer < 2; ++layer)
      layers_.push_back(std::make_unique<Layer>(shape, 10 * layer + 10));
    if (shape_.multiprocessors == 0) shape_.multiprocessors = multiprocessors_here();
    restart();
  }

  // As before the first step.
  void restart() {
    std::vector<std::int64_t> tokens, seen;
    for (int row = 0; row < shape_.rows; ++row) {
      tokens.push_back((row * 37 + 5) % shape_.classes);
      seen.push_back((shape_.seen + row * 67) % (shape_.places - 8));
    }
    tokens_.write(tokens);
    seen_.write(seen);
    for (const auto& layer : layers_) {
      layer->keys.write(kept_);
      layer->values.write(kept_);
    }
    logits_.write(std::vector<T>(shape_.rows * shape_.classes));
  }

  void step(cudaStream_t stream) {
    embed_forward<T>(embedding_.data(), nullptr, tokens_.data(), stream_.data(), shape_.rows, 1, shape_.width,
                     stream);
    for (const auto& layer : layers_) {
      multiply({.x = stream_.data(),
                .gain = layer->gain.data(),
                .weight = layer->in.data(),
                .bias = shape_.biased ? layer->bias.data() : nullptr,
                .out = packed_.data()},
               shape_.width, shape_.packed(), stream);
      attend(*layer, stream);
      multiply(
          {.x = mixed_.data(), .weight = layer->out.data(), .added = stream_.data(), .out = stream_.data()},
          shape_.mixed(), shape_.width, stream);
      multiply({.x = stream_.data(),
                .gain = layer->gain.data(),
                .weight = layer->up.data(),
                .gated = true,
                .out = inner_.data()},
               shape_.width, shape_.hidden, stream);
      multiply(
          {.x = inner_.data(), .weight = layer->down.data(), .added = stream_.data(), .out = stream_.data()},
          shape_.hidden, shape_.width, stream);
    }
    multiply(
        {.x = stream_.data(), .gain = layers_[0]->gain.data(), .weight = head_.data(), .out = logits_.data()},
        shape_.width, shape_.classes, stream);
    take_likeliest<T>({.logits = logits_.data(),
                       .tokens = tokens_.data(),
                       .seen = seen_.data(),
                       .places = shape_.places,
                       .room = room_.data(),
                       .rows = shape_.rows,
                       .classes = shape_.classes},
                      stream);
  }

  // What some steps queue, which they do.
  StepNotes notes_of(int steps) {
    StepNotes notes;
    step_notes() = &notes;
    for (int i = 0; i < steps; ++i) step(nullptr);
    step_notes() = nullptr;
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return notes;
  }

  struct Left {
    std::vector<float> logits, keys, values;
    std::vector<std::int64_t> tokens, seen;
    bool operator==(const Left&) const = default;
  };
  Left left() const {
    return {.logits = widened(logits_.read()),
            .keys = widened(layers_.back()->keys.read()),
            .values = widened(layers_.back()->values.read()),
            .tokens = tokens_.read(),
            .seen = seen_.read()};
  }

 private:
  struct Layer {
    Layer(const StepShape& shape, unsigned seed)
        : gain(rounded<T>(normal(shape.width, seed))),
          in(made_up(shape.packed() * shape.width, seed + 1)),
          bias(made_up(shape.packed(), seed + 2)),
          out(made_up(shape.width * shape.mixed(), seed + 3)),
          up(made_up(2 * shape.hidden * shape.width, seed + 4)),
          down(made_up(shape.width * shape.hidden, seed + 5)),
          keys(shape.rows * shape.keys * shape.places * shape.size),
          values(shape.rows * shape.keys * shape.places * shape.size) {}
    Buffer<T> gain, in, bias, out, up, down, keys, values;
  };
  static std::vector<T> made_up(std::size_t count, unsigned seed) {
    return rounded<T>(normal(count, seed, 0.06f));
  }
  void attend(const Layer& layer, cudaStream_t stream) {
    cached_attention<T>({.qkv = packed_.data(),
                         .keys = layer.keys.data(),
                         .values = layer.values.data(),
                         .seen = seen_.data(),
                         .angles = shape_.turns ? angles_.data() : nullptr,
                         .out = mixed_.data(),
                         .partial = partial_.data(),
                         .arrived = arrived_.data(),
                         .rows = shape_.rows,
                         .queries = shape_.queries,
                         .key_heads = shape_.keys,
                         .size = shape_.size,
                         .splits = shape_.splits,
                         .places = shape_.places},
                        stream);
  }
  void multiply(FewRows<T> product, std::int64_t in, std::int64_t columns, cudaStream_t stream) const {
    product.rows = shape_.rows;
    product.in = in;
    product.columns = columns;
    product.eps = 1e-5f;
    product.multiprocessors = shape_.multiprocessors;
    ASSERT_TRUE(few_rows_fits<T>(shape_.rows, in, product.gain != nullptr));
    few_rows_product(product, stream);
  }

  StepShape shape_;
  Buffer<T> stream_, packed_, mixed_, inner_, logits_;
  Buffer<std::int64_t> tokens_, seen_;
  Buffer<unsigned long long> room_;
  Buffer<int> arrived_;
  Buffer<float> partial_, angles_;
  Buffer<T> embedding_, head_;
  std::vector<T> kept_;
  std::vector<std::unique_ptr<Layer>> layers_;
};

template <typename T>
class StepsInOneKernel : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    int major = 0;
    if (!IsSkipped() && cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess &&
        major < 9)
      GTEST_SKIP() << "GPUs before Hopper have kernels one by one";
  }
};
using NarrowTypes = testing::Types<__nv_bfloat16, __half>;
TYPED_TEST_SUITE(StepsInOneKernel, NarrowTypes);

template <typename T>
void expect_same_bits(const StepShape& shape, int steps, StepTuning tuning = {}) {
  SCOPED_TRACE(testing::Message() << shape.rows << " rows, " << shape.queries << " for " << shape.keys
                                  << " heads of " << shape.size << ", " << shape.splits << " splits of "
                                  << shape.places << ", " << steps << " steps");
  SmallDecoder<T> decoder(shape);
  const StepNotes notes = decoder.notes_of(steps);
  const auto expected = decoder.left();
  ASSERT_EQ(notes.instructions.size(), static_cast<std::size_t>(steps * 13));
  ASSERT_GT(*std::max_element(expected.logits.begin(), expected.logits.end()), 0);
  tuning.most_rows = kMostFewRows;
  const auto program = StepProgram::of(notes, tuning);
  ASSERT_TRUE(program);
  for (int i = 0; i < 10; ++i) {
    decoder.restart();
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    ASSERT_EQ(program->launch(nullptr), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const auto left = decoder.left();
    ASSERT_EQ(left.logits, expected.logits) << "launch " << i;
    ASSERT_EQ(left.keys, expected.keys) << "launch " << i;
    ASSERT_TRUE(left == expected) << "launch " << i;
  }
}

TYPED_TEST(StepsInOneKernel, GiveTheBitsOfKernelsOneByOne) {
  for (const int rows : {1, 3, 8}) {
    for (const StepShape& shape :
         {StepShape{.rows = rows},
          {.rows = rows, .queries = 3, .keys = 3, .size = 128, .biased = true},
          {.rows = rows, .queries = 4, .keys = 4, .splits = 4, .turns = true},
          {.rows = rows, .queries = 7, .keys = 1, .splits = 3, .seen = 126},
          {.rows = rows,
          .queries = 6,
          .keys = 2,
          .size = 128,
          .splits = 5,
          .places = 330,
          .seen = 250,
          .biased = true,
          .turns = true},
          {.rows = rows, .queries = 4, .keys = 1, .splits = 32, .places = 2100, .seen = 2040, .turns = true}})
      expect_same_bits<TypeParam>(shape, 1);
  }
}

TYPED_TEST(StepsInOneKernel, SeveralStepsGiveTheBitsOfKernelsOneByOne) {
  for (const int rows : {1, 4}) {
    // From the last place of a part into the next.
    expect_same_bits<TypeParam>({.rows = rows, .queries = 8, .splits = 4, .seen = 61, .turns = true}, 4);
    expect_same_bits<TypeParam>({.rows = rows, .splits = 32, .places = 2100, .seen = 2046}, 3);
  }
}

// Fewer tiles than blocks, warps without groups, classes that are no whole packs; one block, and some.
TYPED_TEST(StepsInOneKernel, TakeOddWidths) {
  expect_same_bits<TypeParam>({.rows = 2, .queries = 1, .keys = 1, .width = 40, .hidden = 24, .classes = 101},
                              2);
  for (const int multiprocessors : {1, 7, 50})
    expect_same_bits<TypeParam>(
        {.rows = 2, .splits = 4, .width = 1032, .hidden = 2056, .multiprocessors = multiprocessors}, 2);
}

TYPED_TEST(StepsInOneKernel, RingsOfAllDepthsGiveTheSameBits) {
  for (const int depth : {2, 3, 4, 6}) {
    SCOPED_TRACE(depth);
    expect_same_bits<TypeParam>({.splits = 2, .width = 1024, .hidden = 3000}, 2, {.most_depth = depth});
    expect_same_bits<TypeParam>({.rows = 2, .width = 1032, .hidden = 5000}, 2,
                                {.most_depth = depth, .most_asked = 4 + depth});
  }
}

// Attention's parts are put together by all blocks before the next product, or by each in it.
TYPED_TEST(StepsInOneKernel, PartsAreJoinedInProductsOrBeforeThem) {
  for (const bool in_products : {true, false}) {
    SCOPED_TRACE(in_products);
    for (const int rows : {1, 3, 8})
      expect_same_bits<TypeParam>(
          {.rows = rows, .queries = 8, .keys = 2, .splits = 8, .places = 700, .seen = 500, .turns = true}, 2,
          {.joins_in_products = in_products});
  }
}

TYPED_TEST(StepsInOneKernel, AreForFewRows) {
  const auto is_one_kernel = [](int rows) {
    return StepProgram::of(SmallDecoder<TypeParam>({.rows = rows}).notes_of(1)) != nullptr;
  };
  EXPECT_TRUE(is_one_kernel(2));
  EXPECT_FALSE(is_one_kernel(3));
}

TYPED_TEST(StepsInOneKernel, NeedRoomForTheirRows) {
  StepNotes notes;
  EXPECT_FALSE(StepProgram::of(notes));
  FewRows<TypeParam> product{.rows = 8, .in = 16384, .columns = 8, .multiprocessors = 1};
  notes.instructions.push_back(StepInstruction::of(StepKind::Product, product));
  ++(std::is_same_v<TypeParam, __half> ? notes.half : notes.bf16);
  EXPECT_FALSE(StepProgram::of(notes, {.most_rows = 8}));
}

}  // namespace
}  // namespace twobw::models::cuda
