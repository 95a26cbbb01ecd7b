// Plain loops that the compiler vectorises; no LibTorch. Single-threaded over the given range.
#pragma once

#include <cstdint>

namespace twobw::models {

// For each of `rows` rows of `logits` [rows, classes]: loss[row] = logsumexp - logit of the target; and
// where `gradient_scale` is not 0, the row becomes (softmax - onehot(target)) * gradient_scale. A target
// below 0 does not count: neither has a loss nor a gradient.
void softmax_cross_entropy(float* logits, const std::int64_t* targets, double* loss, std::int64_t rows,
                           std::int64_t classes, float gradient_scale);

// out = gelu(x), tanh approximation.
void gelu_forward(const float* x, float* out, std::int64_t n);

// grad_x = grad_out * gelu'(x).
void gelu_backward(const float* x, const float* grad_out, float* grad_x, std::int64_t n);

}  // namespace twobw::models
