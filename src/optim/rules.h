// The optimizers and the extrapolations, one element at a time. optim/kernels.cc loops over them on a CPU,
// optim/kernels.cu on a GPU.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/host_device.h"

namespace twobw::optim {

// Where the numbers of n parameters lie. `source` and `target` may be the same (in place). Computed with are
// weights of type Compute.
template <typename Compute>
struct StreamsOf {
  const float* source = nullptr;  // W(t)
  float* target = nullptr;        // W(t+1)
  float* gradient = nullptr;      // read, then zeroed
  float* moment1 = nullptr;
  float* moment2 = nullptr;  // AdamW only
  float* update1 = nullptr;  // u of the update before; null: no history is kept
  float* update2 = nullptr;  // u of the one before that; null: no second term
  Compute* compute =
      nullptr;  // weights to compute with, extrapolated from the target; null: the target itself
  float* applied1 = nullptr;  // W(t) - W(t-1); null: no second term
  std::int64_t n = 0;

  StreamsOf from(std::int64_t offset, std::int64_t count) const {
    const auto at = [offset](auto* pointer) { return pointer ? pointer + offset : nullptr; };
    return {.source = source + offset,
            .target = target + offset,
            .gradient = gradient + offset,
            .moment1 = at(moment1),
            .moment2 = at(moment2),
            .update1 = at(update1),
            .update2 = at(update2),
            .compute = at(compute),
            .applied1 = at(applied1),
            .n = count};
  }
};
using Streams = StreamsOf<float>;

// applied = u + update (u - u1) + update2 (u1 - u2); compute = W(t+1) + weights applied + weights2 applied1.
struct Extrapolation {
  float update = 0, update2 = 0;
  float weights = 0, weights2 = 0;
};

// Without the terms that reach back to updates which were not made yet, after so many.
TWOBW_HOST_DEVICE Extrapolation with_history(Extrapolation e, std::int64_t updates) {
  if (updates < 1) e.update = 0;
  if (updates < 2) e.update2 = 0;
  return e;
}

struct AdamWRule {
  float learning_rate, beta1, beta2, eps, decay;
  float correction1, root_correction2;  // 1 - beta1^n, sqrt(1 - beta2^n)
  float gradient_scale;
};

struct SgdRule {
  float learning_rate, momentum, decay;
  float gradient_scale;
};

// The optimizers' updates u.
template <typename S>
TWOBW_HOST_DEVICE float update_of(const AdamWRule& rule, const S& s, std::int64_t i, float w,
                                  float gradient) {
  const float m = s.moment1[i] + (1.0f - rule.beta1) * (gradient - s.moment1[i]);
  const float v = rule.beta2 * s.moment2[i] + (1.0f - rule.beta2) * gradient * gradient;
  s.moment1[i] = m;
  s.moment2[i] = v;
  const float denominator = std::sqrt(v) / rule.root_correction2 + rule.eps;
  return -rule.learning_rate * (rule.decay * w + (m / rule.correction1) / denominator);
}

template <typename S>
TWOBW_HOST_DEVICE float update_of(const SgdRule& rule, const S& s, std::int64_t i, float w, float gradient) {
  const float m = rule.momentum * s.moment1[i] + gradient;
  s.moment1[i] = m;
  return -rule.learning_rate * (rule.decay * w + m);
}

// One parameter of an update, all of it: the gradient is cleared for its next batch.
template <typename Rule, typename S>
TWOBW_HOST_DEVICE void apply_element(const Rule& rule, const Extrapolation& e, const S& s, std::int64_t i) {
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

// Of an update that is skipped: W(t+1) = W(t), optimizer state untouched, gradient cleared.
template <typename S>
TWOBW_HOST_DEVICE void skip_element(const Extrapolation& e, const S& s, std::int64_t i) {
  const float w = s.source[i];
  s.gradient[i] = 0.0f;
  s.target[i] = w;
  if (!s.compute) return;
  s.compute[i] = s.applied1 ? w + e.weights2 * s.applied1[i] : w;
  if (s.applied1) s.applied1[i] = 0.0f;
}

}  // namespace twobw::optim
