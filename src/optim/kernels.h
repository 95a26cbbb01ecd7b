// One pass over memory for a whole update: optimizer, extrapolations, new weights, and the gradient
// cleared for its next batch. Plain loops, no LibTorch.
#pragma once

#include <cstdint>

namespace twobw::optim {

// Where the numbers of n parameters lie. `source` and `target` may be the same (in place).
struct Streams {
  const float* source = nullptr;  // W(t)
  float* target = nullptr;        // W(t+1)
  float* gradient = nullptr;      // read, then zeroed
  float* moment1 = nullptr;
  float* moment2 = nullptr;  // AdamW only
  float* update1 = nullptr;  // u of the update before; null: no history is kept
  float* update2 = nullptr;  // u of the one before that; null: no second term
  float* compute = nullptr;  // weights to compute with, extrapolated from the target; null: the target itself
  float* applied1 = nullptr;  // W(t) - W(t-1); null: no second term
  std::int64_t n = 0;

  Streams from(std::int64_t offset, std::int64_t count) const;
};

// applied = u + update (u - u1) + update2 (u1 - u2); compute = W(t+1) + weights applied + weights2 applied1.
struct Extrapolation {
  float update = 0, update2 = 0;
  float weights = 0, weights2 = 0;
};

struct AdamWRule {
  float learning_rate, beta1, beta2, eps, decay;
  float correction1, root_correction2;  // 1 - beta1^n, sqrt(1 - beta2^n)
  float gradient_scale;
};

struct SgdRule {
  float learning_rate, momentum, decay;
  float gradient_scale;
};

// For both rules above.
template <typename Rule>
void apply(const Rule& rule, const Extrapolation& extrapolation, const Streams& streams);

// An update that is skipped: W(t+1) = W(t), optimizer state untouched, gradient cleared.
void skip(const Extrapolation& extrapolation, const Streams& streams);

// The sum of squares in double, in an order that depends on n alone.
double squared_norm(const float* values, std::int64_t n);

}  // namespace twobw::optim
