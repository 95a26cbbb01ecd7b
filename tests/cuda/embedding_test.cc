// The embedding's kernels, and that which packs q, k and v, against plain loops in double.
#include <array>

#include "buffer.h"
#include "engine/models/kernels_cuda.h"

namespace twobw::models {
namespace {

template <typename T>
class EmbeddingOnGpu : public CudaTest {};
using Types = testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(EmbeddingOnGpu, Types);

constexpr std::array<int, 3> kWidths = {16, 37, 776};
constexpr std::int64_t kBatch = 3, kLength = 45, kContext = 50, kVocabulary = 131;

// Some tokens often, some never; the last one too.
std::vector<std::int64_t> made_up_tokens() {
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < kBatch * kLength; ++i)
    tokens.push_back(i % 4 == 0 ? 7 : i * 7919 % kVocabulary);
  tokens[5] = kVocabulary - 1;
  return tokens;
}

TYPED_TEST(EmbeddingOnGpu, AddsTokensAndPositions) {
  using T = TypeParam;
  const std::vector<std::int64_t> tokens = made_up_tokens();
  const Buffer<std::int64_t> on_tokens{tokens};
  for (const int width : kWidths) {
    SCOPED_TRACE(testing::Message() << "width " << width);
    const std::vector<T> token_weight = rounded<T>(normal(kVocabulary * width, 1)),
                         position_weight = rounded<T>(normal(kContext * width, 2));
    const Buffer<T> on_token_weight{token_weight}, on_position_weight{position_weight};
    Buffer<T> out{tokens.size() * width};
    cuda::embed_forward<T>(on_token_weight.data(), on_position_weight.data(), on_tokens.data(), out.data(),
                           kBatch, kLength, width, nullptr);
    std::vector<double> expected, of_tokens;
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      for (int i = 0; i < width; ++i) {
        of_tokens.push_back(static_cast<float>(token_weight[tokens[row] * width + i]));
        expected.push_back(of_tokens.back() + static_cast<double>(static_cast<float>(
                                                  position_weight[row % kLength * width + i])));
      }
    }
    expect_near(widened(out.read()), expected, kRounding<T>);
    // Without positions.
    cuda::embed_forward<T>(on_token_weight.data(), nullptr, on_tokens.data(), out.data(), kBatch, kLength,
                           width, nullptr);
    expect_near(widened(out.read()), of_tokens, kRounding<T>);
  }
}

TYPED_TEST(EmbeddingOnGpu, AddsItsGradients) {
  using T = TypeParam;
  const std::vector<std::int64_t> tokens = made_up_tokens();
  const Buffer<std::int64_t> on_tokens{tokens};
  for (const int width : kWidths) {
    const std::vector<T> grad_out = rounded<T>(normal(tokens.size() * width, 3));
    const Buffer<T> on_grad_out{grad_out};
    std::vector<double> expected_tokens(kVocabulary * width, 1.0), expected_positions(kContext * width, 2.0);
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      for (int i = 0; i < width; ++i) {
        const auto gradient = static_cast<double>(static_cast<float>(grad_out[row * width + i]));
        expected_tokens[tokens[row] * width + i] += gradient;
        expected_positions[row % kLength * width + i] += gradient;
      }
    }
    std::vector<float> first;
    for (const bool deterministic : {false, true, true}) {
      SCOPED_TRACE(testing::Message() << "width " << width << (deterministic ? ", in order" : ""));
      Buffer<float> grad_tokens{std::vector<float>(kVocabulary * width, 1.0f)},
          grad_positions{std::vector<float>(kContext * width, 2.0f)};
      cuda::EmbedBackward<T> embed{.grad_out = on_grad_out.data(),
                                   .tokens = on_tokens.data(),
                                   .grad_tokens = grad_tokens.data(),
                                   .grad_positions = grad_positions.data(),
                                   .batch = kBatch,
                                   .length = kLength,
                                   .vocabulary = kVocabulary,
                                   .width = width,
                                   .deterministic = deterministic};
      cuda::embed_backward(embed, nullptr);
      expect_near(grad_tokens.read(), expected_tokens, 1e-5);
      expect_near(grad_positions.read(), expected_positions, 1e-5);
      // Without positions.
      Buffer<float> alone{std::vector<float>(kVocabulary * width, 1.0f)};
      embed.grad_tokens = alone.data();
      embed.grad_positions = nullptr;
      cuda::embed_backward(embed, nullptr);
      expect_near(alone.read(), expected_tokens, 1e-5);
      if (!deterministic) continue;
      if (first.empty())
        first = grad_tokens.read();
      else
        EXPECT_EQ(grad_tokens.read(), first);
    }
  }
}

TYPED_TEST(EmbeddingOnGpu, PacksThreeSideBySide) {
  using T = TypeParam;
  constexpr int kRows = 29;
  for (const int width : kWidths) {
    for (const int kv_width : {width, 8, 3}) {
      const std::array<int, 3> widths = {width, kv_width, kv_width};
      std::array<std::vector<T>, 3> parts;
      for (unsigned part = 0; part < 3; ++part)
        parts[part] = rounded<T>(normal(static_cast<std::size_t>(kRows) * widths[part], part));
      const Buffer<T> q{parts[0]}, k{parts[1]}, v{parts[2]};
      Buffer<T> out{static_cast<std::size_t>(kRows) * (width + 2 * kv_width)};
      cuda::pack_three(q.data(), k.data(), v.data(), out.data(), kRows, width, kv_width, nullptr);
      std::vector<float> expected;
      for (std::size_t row = 0; row < kRows; ++row) {
        for (std::size_t part = 0; part < 3; ++part) {
          for (int i = 0; i < widths[part]; ++i)
            expected.push_back(static_cast<float>(parts[part][row * widths[part] + i]));
        }
      }
      EXPECT_EQ(widened(out.read()), expected);
    }
  }
}

}  // namespace
}  // namespace twobw::models
