// Plain loops that the compiler vectorises; no LibTorch. Single-threaded over the given range.
#pragma once

#include <cstdint>

namespace twobw::models {

inline constexpr std::int64_t kGrain = 16384;  // elements that are worth a thread

// For each of `rows` rows of `logits` [rows, classes]: loss[row] = logsumexp - logit of the target; and
// where `gradient_scale` is not 0, the row becomes (softmax - onehot(target)) * gradient_scale. A target
// below 0 does not count: neither has a loss nor a gradient.
void softmax_cross_entropy(float* logits, const std::int64_t* targets, double* loss, std::int64_t rows,
                           std::int64_t classes, float gradient_scale);

// out = gelu(x), tanh approximation.
void gelu_forward(const float* x, float* out, std::int64_t n);

// grad_x = grad_out * gelu'(x).
void gelu_backward(const float* x, const float* grad_out, float* grad_x, std::int64_t n);

// The same of x times the normal distribution's integral up to x, which erf gives and the tanh approximates.
void erf_gelu_forward(const float* x, float* out, std::int64_t n);
void erf_gelu_backward(const float* x, const float* grad_out, float* grad_x, std::int64_t n);

// Rows of `width`: scale[row] = 1 / sqrt(mean of x^2 + eps), out = x * scale * weight.
void rms_norm_forward(const float* x, const float* weight, float* out, float* scale, std::int64_t rows,
                      std::int64_t width, double eps);
void rms_norm_backward(const float* x, const float* weight, const float* scale, const float* grad_out,
                       float* grad_x, std::int64_t rows, std::int64_t width);
// Columns [begin, end) of grad_weight += the sum over all rows, in their order.
void rms_norm_weight_gradient(const float* x, const float* scale, const float* grad_out, float* grad_weight,
                              std::int64_t rows, std::int64_t width, std::int64_t begin, std::int64_t end);

// out [rows, width] = silu(gate) * value, of the halves gate | value of x [rows, 2 width].
void swiglu_forward(const float* x, float* out, std::int64_t rows, std::int64_t width);
void swiglu_backward(const float* x, const float* grad_out, float* grad_x, std::int64_t rows,
                     std::int64_t width);

// A row of `heads` heads of `size`, the first `turned` of which turn by `angles` [size], cosines and then
// sines (element i with element i + size / 2), back where `sign` is -1; the others are copied.
void rotate_row(const float* x, const float* angles, float* out, int heads, int turned, int size, float sign);

}  // namespace twobw::models
