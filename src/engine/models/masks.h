// Attention masks: the padding of sequences, and the documents that a sequence holds. `positions` [b, T]: how
// many tokens of its document precede each token in the sequence.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

namespace twobw::models {

// True [b, 1, T, T] for keys hidden from a query: of later tokens and of other documents.
inline at::Tensor hidden_keys(const at::Tensor& positions) {
  const std::int64_t length = positions.size(1);
  const at::Tensor places = at::arange(length, positions.options());
  const at::Tensor begins = (places - positions).view({-1, 1, length, 1});
  return places.lt(begins).logical_or(places.gt(places.view({length, 1})));
}

// A block of `length` tokens from `first` on, in `rows` rows of a batch.
struct Stretch {
  std::int64_t row = 0, rows = 1;
  std::int64_t first = 0, length = 0;

  // The block of x [b, heads, T, size].
  at::Tensor of(const at::Tensor& x) const { return x.narrow(0, row, rows).narrow(2, first, length); }
};

// One block for each document, from positions on the CPU; one for the whole batch if these are undefined.
inline std::vector<Stretch> stretches_of(const at::Tensor& positions, std::int64_t rows,
                                         std::int64_t length) {
  if (!positions.defined()) return {{.rows = rows, .length = length}};
  const at::Tensor numbers = positions.contiguous();
  const auto* at = numbers.const_data_ptr<std::int64_t>();
  std::vector<Stretch> stretches;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t place = 0; place < length; ++place, ++at) {
      if (place == 0 || *at == 0) stretches.push_back({.row = row, .first = place});
      ++stretches.back().length;
    }
  }
  return stretches;
}

// True [b, 1, 1, T] for the padding of each sequence; the first token always counts.
inline at::Tensor padding_of(const at::Tensor& lengths, std::int64_t places) {
  const at::Tensor ends = lengths.clamp_min(1).view({-1, 1, 1, 1});
  return at::arange(places, lengths.options()).ge(ends);
}

}  // namespace twobw::models
