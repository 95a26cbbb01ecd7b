#include "optim/kernels.h"

#include <cmath>

#include "base/vectorize.h"

namespace twobw::optim {
namespace {

template <typename T>
T* at_offset(T* pointer, std::int64_t offset) {
  return pointer ? pointer + offset : nullptr;
}

// The optimizers' updates u, one element at a time.
inline __attribute__((always_inline)) float update_of(const AdamWRule& rule, const Streams& s, std::int64_t i,
                                                      float w, float gradient) {
  const float m = s.moment1[i] + (1.0f - rule.beta1) * (gradient - s.moment1[i]);
  const float v = rule.beta2 * s.moment2[i] + (1.0f - rule.beta2) * gradient * gradient;
  s.moment1[i] = m;
  s.moment2[i] = v;
  const float denominator = std::sqrt(v) / rule.root_correction2 + rule.eps;
  return -rule.learning_rate * (rule.decay * w + (m / rule.correction1) / denominator);
}

inline __attribute__((always_inline)) float update_of(const SgdRule& rule, const Streams& s, std::int64_t i,
                                                      float w, float gradient) {
  const float m = rule.momentum * s.moment1[i] + gradient;
  s.moment1[i] = m;
  return -rule.learning_rate * (rule.decay * w + m);
}

// Without extrapolation. The pointers are copied and promised distinct (but for source and target,
// which meet element by element only), or the loop would not vectorise.
template <typename Rule>
inline __attribute__((always_inline)) void plain_loop(const Rule& given, const Streams& streams) {
  const Rule rule = given;
  const Streams s = streams;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < s.n; ++i) {
    const float w = s.source[i];
    const float u = update_of(rule, s, i, w, s.gradient[i] * rule.gradient_scale);
    s.gradient[i] = 0.0f;
    s.target[i] = w + u;
  }
}

template <typename Rule>
inline __attribute__((always_inline)) void extrapolating_loop(const Rule& rule,
                                                              const Extrapolation& extrapolation,
                                                              const Streams& streams) {
  const Streams s = streams;
  const Extrapolation e = extrapolation;
  for (std::int64_t i = 0; i < s.n; ++i) {
    const float w = s.source[i];
    const float u = update_of(rule, s, i, w, s.gradient[i] * rule.gradient_scale);
    s.gradient[i] = 0.0f;
    float applied = u;
    if (s.update1) {
      const float u1 = s.update1[i];
      applied += e.update * (u - u1);
      if (s.update2) {
        applied += e.update2 * (u1 - s.update2[i]);
        s.update2[i] = u1;
      }
      s.update1[i] = u;
    }
    const float next = w + applied;
    s.target[i] = next;
    if (s.compute) {
      float ahead = next + e.weights * applied;
      if (s.applied1) {
        ahead += e.weights2 * s.applied1[i];
        s.applied1[i] = applied;
      }
      s.compute[i] = ahead;
    }
  }
}

bool extrapolates(const Streams& streams) {
  return streams.update1 != nullptr || streams.compute != nullptr;
}

}  // namespace

Streams Streams::from(std::int64_t offset, std::int64_t count) const {
  return {.source = source + offset,
          .target = target + offset,
          .gradient = gradient + offset,
          .moment1 = at_offset(moment1, offset),
          .moment2 = at_offset(moment2, offset),
          .update1 = at_offset(update1, offset),
          .update2 = at_offset(update2, offset),
          .compute = at_offset(compute, offset),
          .applied1 = at_offset(applied1, offset),
          .n = count};
}

template <typename Rule>
TWOBW_VECTORIZED void apply(const Rule& rule, const Extrapolation& extrapolation, const Streams& streams) {
  if (extrapolates(streams)) {
    extrapolating_loop(rule, extrapolation, streams);
  } else {
    plain_loop(rule, streams);
  }
}

template void apply(const AdamWRule&, const Extrapolation&, const Streams&);
template void apply(const SgdRule&, const Extrapolation&, const Streams&);

void skip(const Extrapolation& e, const Streams& s) {
  for (std::int64_t i = 0; i < s.n; ++i) {
    const float w = s.source[i];
    s.gradient[i] = 0.0f;
    s.target[i] = w;
    if (!s.compute) continue;
    s.compute[i] = s.applied1 ? w + e.weights2 * s.applied1[i] : w;
    if (s.applied1) s.applied1[i] = 0.0f;
  }
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

}  // namespace twobw::optim
