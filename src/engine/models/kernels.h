// CPU kernels: plain loops that the compiler vectorizes, without LibTorch. Each runs on the calling thread.
#pragma once

#include <cstdint>

#include "core/base/dropout.h"

namespace twobw::models {

inline constexpr std::int64_t kGrain = 16384;  // least elements for a thread

// For each of `rows` rows of `logits` [rows, classes]: loss[row] = logsumexp - logit of the target; and
// if `gradient_scale` is not 0, the row becomes (softmax - onehot(target)) * gradient_scale. A target below 0
// has neither loss nor gradient.
void softmax_cross_entropy(float* logits, const std::int64_t* targets, double* loss, std::int64_t rows,
                           std::int64_t classes, float gradient_scale);

// out = gelu(x), tanh approximation.
void gelu_forward(const float* x, float* out, std::int64_t n);

// grad_x = grad_out * gelu'(x).
void gelu_backward(const float* x, const float* grad_out, float* grad_x, std::int64_t n);

// The exact GELU, by erf.
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

// Rotary embedding of a row of `heads` heads of `size`: rotates the first `turned` by `angles` [size],
// cosines and then sines (element i with element i + size / 2), and copies the others. `sign` -1 rotates
// back.
void rotate_row(const float* x, const float* angles, float* out, int heads, int turned, int size, float sign);

// A dropout mask of shape [.., n2, n1, width].
struct RowsOfMask {
  std::uint64_t key = 0;
  DropoutRate rate{};
  std::int64_t n1 = 1, n2 = 1, width = 1;
};

// Rows [begin, end): out = x times the mask, plus `residual` unless null. `out` may be either of them.
void drop_rows(const RowsOfMask& mask, const float* x, const float* residual, float* out, std::int64_t begin,
               std::int64_t end);

// In-place softmax of `scale` times the first `seen` scores of a query, 0 for the others; and the gradient of
// the weights becomes that of the scores.
void softmax_row(float* scores, std::int64_t width, std::int64_t seen, float scale);
void softmax_row_backward(const float* weights, float* gradient, std::int64_t width, float scale);

// out [rows, columns] = x [rows, in] weight^T [in, columns] + bias [columns] (null: none).
struct SkinnyGemm {
  const float* x = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;
  float* out = nullptr;
  std::int64_t rows = 0, in = 0, columns = 0;
};
// Columns [begin, end) of it.
void skinny_gemm(const SkinnyGemm& product, std::int64_t begin, std::int64_t end);

// Attention of one query [size] over keys and values [places, size] -> out [size]; `scores` has space for
// `places` numbers.
void attend(const float* query, const float* keys, const float* values, float* scores, float* out,
            std::int64_t places, std::int64_t size);

}  // namespace twobw::models
