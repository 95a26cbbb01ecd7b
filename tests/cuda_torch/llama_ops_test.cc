// The building blocks of llama on a GPU: in float against those of the CPU, in bfloat16 against the GPU's in
// float.
#include <array>

#include "engine/models/ops.h"
#include "engine/models/rotary.h"
#include "on_gpu.h"

namespace twobw::models {
namespace {

using at::Tensor;
using LlamaOpsOnGpu = OpsOnGpu;

TEST_F(LlamaOpsOnGpu, EmbeddingWithoutPositions) {
  for (const bool deterministic : {false, true}) {
    register_stream(deterministic);
    expect_like_the_cpu(
        {.operation = [](const auto& in) { return std::vector{ops::embedding(in[0], in[1])}; },
         .inputs = {},
         .parameters = {normal({301, 64}, 1)},
         .integers = {random_tokens({3, 60}, 301, 5)}});
  }
}

TEST_F(LlamaOpsOnGpu, RmsNorm) {
  for (const std::int64_t width : {64, 37, 2048}) {
    SCOPED_TRACE(width);
    expect_like_the_cpu(
        {.operation = [](const auto& in) { return std::vector{ops::rms_norm(in[0], in[1], 1e-5)}; },
         .inputs = {normal({2, 61, width}, 1)},
         .parameters = {normal({width}, 2)}});
  }
}

TEST_F(LlamaOpsOnGpu, RmsNormAndStream) {
  const Operation both = [](const auto& in) {
    const auto [normed, stream] = ops::rms_norm_and_stream(in[0], in[1], 1e-5);
    return std::vector{normed, stream};
  };
  Case c{.operation = both, .inputs = {normal({2, 61, 768}, 1)}, .parameters = {normal({768}, 2)}};
  expect_like_the_cpu(c);
  c.operation = [&](const auto& in) { return std::vector{both(in)[1]}; };  // the stream alone
  expect_like_the_cpu(c);
}

TEST_F(LlamaOpsOnGpu, Swiglu) {
  for (const std::int64_t width : {256, 37}) {
    expect_like_the_cpu({.operation = [](const auto& in) { return std::vector{ops::swiglu(in[0])}; },
                         .inputs = {normal({3, 5, 2 * width}, 1, 2.0)},
                         .parameters = {}});
  }
}

TEST_F(LlamaOpsOnGpu, NormsOfHeads) {
  const ops::Heads heads{.queries = 6, .keys = 2, .size = 32};
  expect_like_the_cpu(
      {.operation =
           [heads](const auto& in) { return std::vector{ops::norm_heads(in[0], heads, in[1], in[2], 1e-5)}; },
       .inputs = {normal({2, 40, heads.all() * 32}, 1)},
       .parameters = {normal({32}, 2), normal({32}, 3)}});
}

TEST_F(LlamaOpsOnGpu, Rotate) {
  for (const int size : {64, 20}) {
    const ops::Heads heads{.queries = 6, .keys = 2, .size = size};
    const auto table = RotaryTable::of({.width = 6 * size, .heads = 6, .context = 50});
    expect_like_the_cpu({.operation =
                             [heads, table](const auto& in) {
                               const Tensor angles = table->angles(in[0].size(1), in[0].device());
                               return std::vector{ops::rotate(in[0], heads, angles)};
                             },
                         .inputs = {normal({2, 40, heads.all() * size}, 1)},
                         .parameters = {}});
  }
}

// Of two sequences: one document and the rest in sevens; and one for all tokens.
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

TEST_F(LlamaOpsOnGpu, DocumentAttention) {
  for (const bool deterministic : {false, true}) {
    for (const auto& [queries, keys, size, length] :
         {std::array{8, 2, 64, 256}, std::array{6, 1, 32, 64}, std::array{4, 2, 128, 200},
          std::array{3, 3, 64, 203}, std::array{4, 2, 6, 33}}) {
      SCOPED_TRACE(testing::Message() << queries << " heads on " << keys << " of " << size << ", " << length
                                      << " tokens" << (deterministic ? ", deterministic" : ""));
      register_stream(deterministic);
      const ops::Heads heads{.queries = queries, .keys = keys, .size = size};
      expect_like_the_cpu(
          {.operation =
               [heads](const auto& in) { return std::vector{ops::grouped_attention(in[0], heads, in[1])}; },
           .inputs = {normal({2, length, heads.all() * size}, 1)},
           .parameters = {},
           .integers = {two_rows_of_documents(length)}},
          kAttentionTolerance);
    }
  }
}

TEST_F(LlamaOpsOnGpu, GroupedAttention) {
  for (const bool deterministic : {false, true}) {
    for (const auto& [queries, keys, size, length] :
         {std::array{8, 2, 64, 256}, std::array{6, 1, 32, 64}, std::array{4, 2, 128, 200},
          std::array{3, 3, 64, 192}, std::array{4, 2, 6, 33}}) {
      SCOPED_TRACE(testing::Message() << queries << " heads on " << keys << " of " << size << ", " << length
                                      << " tokens" << (deterministic ? ", deterministic" : ""));
      register_stream(deterministic);
      const ops::Heads heads{.queries = queries, .keys = keys, .size = size};
      expect_like_the_cpu(
          {.operation = [heads](const auto& in) { return std::vector{ops::grouped_attention(in[0], heads)}; },
           .inputs = {normal({2, length, heads.all() * size}, 1)},
           .parameters = {}},
          kAttentionTolerance);
    }
  }
}

}  // namespace
}  // namespace twobw::models
