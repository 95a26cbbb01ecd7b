// Llama's operations on a GPU (on_gpu.h), in all shapes that choose another kernel or a second pass of it.
#include <array>

#include "engine/models/ops.h"
#include "engine/models/rotary.h"
#include "on_gpu.h"

namespace twobw::models {
namespace {

using at::Tensor;
using LlamaOpsOnGpu = OpsOnGpu;

using Rows = std::array<std::int64_t, 2>;  // rows, width

TEST_F(LlamaOpsOnGpu, RmsNorm) {
  for (const auto& [rows, width] : std::vector<Rows>{{261, 1},
                                                     {261, 16},
                                                     {261, 37},
                                                     {1061, 768},
                                                     {261, 1600},
                                                     {1061, 4096},
                                                     {261, 4104},
                                                     {1, 5120},
                                                     {261, 8192},
                                                     {261, 8200},
                                                     {70001, 24}}) {
    SCOPED_TRACE(testing::Message() << rows << " rows of " << width);
    const Case c{.operation = [](const auto& in) { return std::vector{ops::rms_norm(in[0], in[1], 1e-3)}; },
                 .inputs = {normal({rows, width}, 1)},
                 .parameters = {normal({width}, 2)}};
    expect_like_the_cpu(c);
    expect_same_bits_every_time(c);
  }
}

TEST_F(LlamaOpsOnGpu, RmsNormAndStream) {
  const Operation both = [](const auto& in) {
    const auto [normed, stream] = ops::norm_and_stream(in[0], in[1], {}, 1e-5);
    return std::vector{normed, stream};
  };
  Case c{.operation = both, .inputs = {normal({2, 61, 768}, 1)}, .parameters = {normal({768}, 2)}};
  expect_like_the_cpu(c);
  c.operation = [&](const auto& in) { return std::vector{both(in)[1]}; };  // the stream alone
  expect_like_the_cpu(c);
}

TEST_F(LlamaOpsOnGpu, Swiglu) {
  const Operation swiglu = [](const auto& in) { return std::vector{ops::swiglu(in[0])}; };
  for (const auto& [rows, width] : std::vector<Rows>{
           {67, 1}, {67, 8}, {1, 37}, {67, 1024}, {67, 2056}, {67, 11008}, {70001, 5}, {70001, 8}}) {
    SCOPED_TRACE(testing::Message() << rows << " rows of " << width);
    expect_like_the_cpu(
        {.operation = swiglu, .inputs = {normal({rows, 2 * width}, 1, 2.0)}, .parameters = {}});
  }
  // Gates far from zero.
  const Tensor gates = at::tensor({-1e4f, -200.0f, -100.0f, -88.0f, 88.0f, 100.0f, 200.0f, 1e4f});
  expect_like_the_cpu(
      {.operation = swiglu, .inputs = {at::cat({gates, at::ones({8})}).view({1, 16})}, .parameters = {}});
}

TEST_F(LlamaOpsOnGpu, Rotate) {
  struct Shape {
    int queries, keys, size;
    std::int64_t batch, length;
  };
  for (const Shape& shape : {Shape{6, 2, 64, 2, 40}, Shape{6, 2, 20, 2, 40}, Shape{4, 4, 2, 3, 17},
                             Shape{9, 3, 128, 2, 33}, Shape{1, 1, 16, 1, 70001}, Shape{1, 1, 6, 70001, 2}}) {
    SCOPED_TRACE(testing::Message() << shape.batch << " x " << shape.length << ", heads of " << shape.size);
    const ops::Heads heads{.queries = shape.queries, .keys = shape.keys, .size = shape.size};
    const auto table = RotaryTable::of({.width = shape.queries * shape.size,
                                        .heads = shape.queries,
                                        .context = static_cast<int>(shape.length)});
    expect_like_the_cpu({.operation =
                             [heads, table](const auto& in) {
                               const Tensor angles = table->angles(in[0].size(1), in[0].device());
                               return std::vector{ops::rotate(in[0], heads, angles)};
                             },
                         .inputs = {normal({shape.batch, shape.length, heads.all() * shape.size}, 1)},
                         .parameters = {}});
  }
}

// Two sequences: half a document and documents of seven tokens; one document.
Tensor two_rows_of_documents(std::int64_t length) {
  const Tensor places = at::arange(length, at::kLong);
  const std::int64_t first = length / 2;
  return at::stack({at::where(places.lt(first), places, (places - first).remainder(7)), places});
}

TEST_F(LlamaOpsOnGpu, RotateDocuments) {
  for (const int size : {64, 20}) {
    const ops::Heads heads{.queries = 6, .keys = 2, .size = size};
    const auto table = RotaryTable::of({.width = 6 * size, .heads = 6, .context = 50});
    expect_like_the_cpu({.operation =
                             [heads, table](const auto& in) {
                               const Tensor angles = table->angles(in[0].size(1), in[0].device());
                               return std::vector{ops::rotate(in[0], heads, angles, in[1])};
                             },
                         .inputs = {normal({2, 40, heads.all() * size}, 1)},
                         .parameters = {},
                         .integers = {two_rows_of_documents(40)}});
  }
}

TEST_F(LlamaOpsOnGpu, EmbedDocuments) {
  for (const bool deterministic : {false, true}) {
    register_stream(deterministic);
    expect_like_the_cpu(
        {.operation = [](const auto& in) { return std::vector{ops::embed(in[0], in[1], in[2], in[3])}; },
         .inputs = {},
         .parameters = {normal({100, 64}, 1), normal({40, 64}, 2)},
         .integers = {random_tokens({2, 40}, 100, 3), two_rows_of_documents(40)}});
  }
}

TEST_F(LlamaOpsOnGpu, GroupedAttention) {
  for (const bool deterministic : {false, true}) {
    for (const auto& [queries, keys, size, length] :
         {std::array{8, 2, 64, 256}, std::array{6, 1, 32, 64}, std::array{4, 2, 128, 200},
          std::array{3, 3, 64, 203}, std::array{4, 2, 6, 33}}) {
      SCOPED_TRACE(testing::Message() << queries << " heads on " << keys << " of " << size << ", " << length
                                      << " tokens" << (deterministic ? ", deterministic" : ""));
      register_stream(deterministic);
      const ops::Heads heads{.queries = queries, .keys = keys, .size = size};
      Case c{
          .operation = [heads](const auto& in) { return std::vector{ops::grouped_attention(in[0], heads)}; },
          .inputs = {normal({2, length, heads.all() * size}, 1)},
          .parameters = {}};
      expect_like_the_cpu(c, kAttentionTolerance);
      c.operation = [heads](const auto& in) {
        return std::vector{ops::grouped_attention(in[0], heads, in[1])};
      };
      c.integers = {two_rows_of_documents(length)};
      expect_like_the_cpu(c, kAttentionTolerance);
    }
  }
}

}  // namespace
}  // namespace twobw::models
