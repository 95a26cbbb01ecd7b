// Loops that the compiler vectorises, of dropout (core/base/dropout.h) and of the attention that has some; no
// LibTorch. Single-threaded over the given range.
#pragma once

#include <cstdint>

#include "core/base/dropout.h"

namespace twobw::models {

// A mask, and the shape [.., n2, n1, width] of what it is for.
struct RowsOfMask {
  std::uint64_t key = 0;
  DropoutRate rate{};
  std::int64_t n1 = 1, n2 = 1, width = 1;
};

// Of rows [begin, end): out = x times the mask, plus `residual` where it is not null. `out` may be either.
void drop_rows(const RowsOfMask& mask, const float* x, const float* residual, float* out, std::int64_t begin,
               std::int64_t end);

// The scores of one query become its attention weights: the softmax of `scale` times the first `seen`, 0
// behind them. And the gradient of the weights becomes that of the scores.
void softmax_row(float* scores, std::int64_t width, std::int64_t seen, float scale);
void softmax_row_backward(const float* weights, float* gradient, std::int64_t width, float scale);

}  // namespace twobw::models
