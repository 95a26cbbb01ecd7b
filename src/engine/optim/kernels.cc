#include "engine/optim/kernels.h"

#include <algorithm>

#include "core/base/attributes.h"

namespace twobw::optim {
namespace {

// With a copy to compute with if `Copies`. The pointers are copied and promised
// distinct (but for source and target, which meet element by element only), or the loop would not vectorise.
template <bool Copies, typename Rule>
inline __attribute__((always_inline)) void plain_loop(const Rule& given, const Streams& streams) {
  const Rule rule = given;
  const Streams s = streams;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < s.n; ++i) {
    const float w = s.source[i];
    const float u = update_of(rule, s, i, w, s.gradient[i] * rule.gradient_scale);
    const float next = w + u;
    s.gradient[i] = 0.0f;
    s.target[i] = next;
    if constexpr (Copies) s.compute[i] = next;
  }
}

}  // namespace

template <typename Rule>
TWOBW_VECTORIZED void apply(const Rule& rule, const Streams& streams) {
  if (streams.compute != nullptr) {
    plain_loop<true>(rule, streams);
  } else {
    plain_loop<false>(rule, streams);
  }
}

template <typename Rule>
TWOBW_VECTORIZED void apply_and_predict(const Rule& given, const Rule& given_next, const Streams& streams) {
  const Rule rule = given, next = given_next;
  const Streams s = streams;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < s.n; ++i) apply_and_predict_element(rule, next, s, i);
}

template <typename Rule>
TWOBW_VECTORIZED void predict(const Rule& given, const Streams& streams) {
  const Rule next = given;
  const Streams s = streams;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < s.n; ++i) s.compute[i] = predicted(next, s, i, s.source[i]);
}

#define TWOBW_KERNELS(Rule)                                                  \
  template void apply(const Rule&, const Streams&);                          \
  template void apply_and_predict(const Rule&, const Rule&, const Streams&); \
  template void predict(const Rule&, const Streams&);
TWOBW_KERNELS(AdamWRule)
TWOBW_KERNELS(SgdRule)
TWOBW_KERNELS(LionRule)
#undef TWOBW_KERNELS

void skip(const Streams& s) {
  for (std::int64_t i = 0; i < s.n; ++i) skip_element(s, i);
}

TWOBW_VECTORIZED
double squared_norm(const float* values, std::int64_t n) {
  constexpr int kLanes = 16;
  double sums[kLanes] = {};
  const std::int64_t whole = n - n % kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      sums[lane] += value * value;
    }
  }
  double total = 0.0;
  for (double sum : sums) total += sum;
  for (std::int64_t i = whole; i < n; ++i) total += static_cast<double>(values[i]) * values[i];
  return total;
}

std::int64_t norm_piece(std::int64_t n) {
  constexpr std::int64_t kPieces = 64, kLanes = 16, kLeast = 64;
  const std::int64_t lanes = (n + kPieces * kLanes - 1) / (kPieces * kLanes);
  return std::max(kLeast, lanes * kLanes);
}

TWOBW_VECTORIZED
void add(float* __restrict sum, const float* __restrict values, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sum[i] += values[i];
}

}  // namespace twobw::optim
