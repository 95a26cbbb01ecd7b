// The optimizers and the prediction for one element. engine/optim/kernels.cc loops over elements on a CPU,
// engine/optim/kernels.cu on a GPU.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/base/attributes.h"

namespace twobw::optim {

// Pointers to the buffers of n parameters. `source` and `target` may be the same. The layers' weights are of
// type Compute.
template <typename Compute>
struct StreamsOf {
  const float* source = nullptr;  // W(t)
  float* target = nullptr;        // W(t+1)
  float* gradient = nullptr;      // read, then zeroed
  float* moment1 = nullptr;
  float* moment2 = nullptr;  // AdamW only
  // The layers' weights, equal to the target or predicted from it; null: the target itself, or none.
  Compute* compute = nullptr;
  const float* partial_gradient = nullptr;  // the gradients to predict from; null: no prediction
  std::int64_t n = 0;

  StreamsOf from(std::int64_t offset, std::int64_t count) const {
    const auto at = [offset](auto* pointer) { return pointer ? pointer + offset : nullptr; };
    return {.source = source + offset,
            .target = at(target),
            .gradient = at(gradient),
            .moment1 = at(moment1),
            .moment2 = at(moment2),
            .compute = at(compute),
            .partial_gradient = at(partial_gradient),
            .n = count};
  }
};
using Streams = StreamsOf<float>;

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

// The moments after an update, and the update u.
struct ElementUpdate {
  float moment1, moment2, update;
};

TWOBW_HOST_DEVICE ElementUpdate update_element(const AdamWRule& rule, float moment1, float moment2, float w,
                                               float gradient) {
  const float m = moment1 + (1.0f - rule.beta1) * (gradient - moment1);
  const float v = rule.beta2 * moment2 + (1.0f - rule.beta2) * gradient * gradient;
  const float denominator = std::sqrt(v) / rule.root_correction2 + rule.eps;
  return {m, v, -rule.learning_rate * (rule.decay * w + (m / rule.correction1) / denominator)};
}

TWOBW_HOST_DEVICE ElementUpdate update_element(const SgdRule& rule, float moment1, float moment2, float w,
                                               float gradient) {
  const float m = rule.momentum * moment1 + gradient;
  return {m, moment2, -rule.learning_rate * (rule.decay * w + m)};
}

TWOBW_HOST_DEVICE ElementUpdate update_element(const LionRule& rule, float moment1, float moment2, float w,
                                               float gradient) {
  const float mixed = rule.beta1 * moment1 + (1.0f - rule.beta1) * gradient;
  const float sign = static_cast<float>(mixed > 0.0f) - static_cast<float>(mixed < 0.0f) + 0.0f * mixed;
  const float m = rule.beta2 * moment1 + (1.0f - rule.beta2) * gradient;
  return {m, moment2, -rule.learning_rate * (rule.decay * w + sign)};
}

// Whether a rule has a second moment.
template <typename Rule>
inline constexpr bool kHasMoment2 = false;
template <>
inline constexpr bool kHasMoment2<AdamWRule> = true;

// The update of element i; writes its moments.
template <typename Rule, typename S>
TWOBW_HOST_DEVICE float update_of(const Rule& rule, const S& s, std::int64_t i, float w, float gradient) {
  const ElementUpdate result =
      update_element(rule, s.moment1[i], kHasMoment2<Rule> ? s.moment2[i] : 0.0f, w, gradient);
  s.moment1[i] = result.moment1;
  if constexpr (kHasMoment2<Rule>) s.moment2[i] = result.moment2;
  return result.update;
}

// W plus the next update; the state does not change. An update that is not finite counts as 0.
template <typename Rule, typename S>
TWOBW_HOST_DEVICE float predicted(const Rule& next, const S& s, std::int64_t i, float w) {
  const float moment2 = kHasMoment2<Rule> ? s.moment2[i] : 0.0f;
  const float u =
      update_element(next, s.moment1[i], moment2, w, s.partial_gradient[i] * next.gradient_scale).update;
  return w + (u - u == 0.0f ? u : 0.0f);
}

// An update of one element; clears its gradient.
template <typename Rule, typename S>
TWOBW_HOST_DEVICE void apply_element(const Rule& rule, const S& s, std::int64_t i) {
  const float w = s.source[i];
  const float next = w + update_of(rule, s, i, w, s.gradient[i] * rule.gradient_scale);
  s.gradient[i] = 0.0f;
  s.target[i] = next;
  if (s.compute) s.compute[i] = next;
}

// An update of one element and its next prediction.
template <typename Rule, typename S>
TWOBW_HOST_DEVICE void apply_and_predict_element(const Rule& rule, const Rule& next, const S& s,
                                                 std::int64_t i) {
  const float w = s.source[i];
  const float advanced = w + update_of(rule, s, i, w, s.gradient[i] * rule.gradient_scale);
  s.gradient[i] = 0.0f;
  s.target[i] = advanced;
  s.compute[i] = predicted(next, s, i, advanced);
}

// A skipped update: W(t+1) = W(t), the state does not change, the gradient is cleared.
template <typename S>
TWOBW_HOST_DEVICE void skip_element(const S& s, std::int64_t i) {
  const float w = s.source[i];
  s.gradient[i] = 0.0f;
  s.target[i] = w;
  if (s.compute) s.compute[i] = w;
}

}  // namespace twobw::optim
