// The optimizers, the extrapolations and the prediction, one element at a time. optim/kernels.cc loops over
// them on a CPU, optim/kernels.cu on a GPU.
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
  // Weights to compute with, extrapolated or predicted from the target; null: the target itself, or none.
  Compute* compute = nullptr;
  float* applied1 = nullptr;     // W(t) - W(t-1); null: no second term
  const float* ahead = nullptr;  // the gradients to predict from; null: no prediction
  std::int64_t n = 0;

  StreamsOf from(std::int64_t offset, std::int64_t count) const {
    const auto at = [offset](auto* pointer) { return pointer ? pointer + offset : nullptr; };
    return {.source = source + offset,
            .target = at(target),
            .gradient = at(gradient),
            .moment1 = at(moment1),
            .moment2 = at(moment2),
            .update1 = at(update1),
            .update2 = at(update2),
            .compute = at(compute),
            .applied1 = at(applied1),
            .ahead = at(ahead),
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

struct LionRule {
  float learning_rate, beta1, beta2, decay;
  float gradient_scale;
};

// What a rule makes of one element: the state after the update, and the update u.
struct Moved {
  float moment1, moment2, update;
};

TWOBW_HOST_DEVICE Moved move(const AdamWRule& rule, float moment1, float moment2, float w, float gradient) {
  const float m = moment1 + (1.0f - rule.beta1) * (gradient - moment1);
  const float v = rule.beta2 * moment2 + (1.0f - rule.beta2) * gradient * gradient;
  const float denominator = std::sqrt(v) / rule.root_correction2 + rule.eps;
  return {m, v, -rule.learning_rate * (rule.decay * w + (m / rule.correction1) / denominator)};
}

TWOBW_HOST_DEVICE Moved move(const SgdRule& rule, float moment1, float moment2, float w, float gradient) {
  const float m = rule.momentum * moment1 + gradient;
  return {m, moment2, -rule.learning_rate * (rule.decay * w + m)};
}

TWOBW_HOST_DEVICE Moved move(const LionRule& rule, float moment1, float moment2, float w, float gradient) {
  const float mixed = rule.beta1 * moment1 + (1.0f - rule.beta1) * gradient;
  const float sign = static_cast<float>(mixed > 0.0f) - static_cast<float>(mixed < 0.0f) + 0.0f * mixed;
  const float m = rule.beta2 * moment1 + (1.0f - rule.beta2) * gradient;
  return {m, moment2, -rule.learning_rate * (rule.decay * w + sign)};
}

// Which rules keep a second moment.
template <typename Rule>
inline constexpr bool kHasMoment2 = false;
template <>
inline constexpr bool kHasMoment2<AdamWRule> = true;

// The update of element i, whose state moves on.
template <typename Rule, typename S>
TWOBW_HOST_DEVICE float update_of(const Rule& rule, const S& s, std::int64_t i, float w, float gradient) {
  const Moved moved = move(rule, s.moment1[i], kHasMoment2<Rule> ? s.moment2[i] : 0.0f, w, gradient);
  s.moment1[i] = moved.moment1;
  if constexpr (kHasMoment2<Rule>) s.moment2[i] = moved.moment2;
  return moved.update;
}

// W and the update that would come next, to compute with; the state stays. An update that is not finite
// predicts nothing.
template <typename Rule, typename S>
TWOBW_HOST_DEVICE float predicted(const Rule& next, const S& s, std::int64_t i, float w) {
  const float moment2 = kHasMoment2<Rule> ? s.moment2[i] : 0.0f;
  const float u = move(next, s.moment1[i], moment2, w, s.ahead[i] * next.gradient_scale).update;
  return w + (u - u == 0.0f ? u : 0.0f);
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

// An update and the prediction of the next, in one pass.
template <typename Rule, typename S>
TWOBW_HOST_DEVICE void apply_and_predict_element(const Rule& rule, const Rule& next, const S& s,
                                                 std::int64_t i) {
  const float w = s.source[i];
  const float advanced = w + update_of(rule, s, i, w, s.gradient[i] * rule.gradient_scale);
  s.gradient[i] = 0.0f;
  s.target[i] = advanced;
  s.compute[i] = predicted(next, s, i, advanced);
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
