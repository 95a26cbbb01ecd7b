// CUDA kernels of the layers, except matrix products and attention. T is float, __nv_bfloat16 or __half; sums
// are in float, in an order that depends on the sizes only.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/base/attributes.h"
#include "core/base/dropout.h"

namespace twobw::models::cuda {

// Normalizes rows of `width` elements: a layer norm, or an RMS norm (without mean) if `bias` is null.
template <typename T>
struct Norm {
  const T* x = nullptr;
  const T* weight = nullptr;
  const T* bias = nullptr;
  T* out = nullptr;
  float* mean = nullptr;       // [rows], for the backward of a layer norm
  float* deviation = nullptr;  // [rows], 1 / sqrt(variance + eps), or 1 / sqrt(mean of x^2 + eps)
  std::int64_t rows = 0;
  int width = 0;
  float eps = 1e-5f;
};
template <typename T>
void norm_forward(const Norm<T>& norm, cudaStream_t stream);

template <typename T>
struct NormBackward {
  const T* grad_out = nullptr;
  const T* grad_stream = nullptr;  // of the residual stream; null: none
  const T* x = nullptr;
  const T* weight = nullptr;
  const float* mean = nullptr;
  const float* deviation = nullptr;
  T* grad_x = nullptr;           // grad_stream included
  float* grad_weight = nullptr;  // added to
  float* grad_bias = nullptr;    // added to; null for an RMS norm
  float* partial = nullptr;      // room for norm_partials() floats
  std::int64_t rows = 0;
  int width = 0;
};
std::int64_t norm_partials(std::int64_t rows, int width, bool has_bias);
template <typename T>
void norm_backward(const NormBackward<T>& norm, cudaStream_t stream);

// x times the normal distribution's integral up to x, by erf or approximately by tanh.
enum class Gelu { Tanh, Erf };
// out = gelu(x); grad_x = grad_out * gelu'(x).
template <typename T>
void gelu_forward(const T* x, T* out, std::int64_t n, cudaStream_t stream, Gelu kind = Gelu::Tanh);
template <typename T>
void gelu_backward(const T* x, const T* grad_out, T* grad_x, std::int64_t n, cudaStream_t stream,
                   Gelu kind = Gelu::Tanh);

// out [rows, width] = silu(gate) * value, of the halves gate | value of x [rows, 2 width]. grad_x may be x.
template <typename T>
void swiglu_forward(const T* x, T* out, std::int64_t rows, int width, cudaStream_t stream);
template <typename T>
void swiglu_backward(const T* x, const T* grad_out, T* grad_x, std::int64_t rows, int width,
                     cudaStream_t stream);

// Rotates q and k, element i of a head with element i + head / 2, by the angle of position and i, and copies
// v. The backward does so to their gradients, by the angles' negatives.
template <typename T>
struct Rotary {
  const T* x = nullptr;  // [batch, length, (heads + 2 kv_heads) * head]: q, k, v
  T* out = nullptr;      // may be x
  // [length or more, head]: the cosines of a position's head / 2 angles, then their sines. `head` is even,
  // and the table begins at a multiple of 32 bytes.
  const float* table = nullptr;
  std::int64_t batch = 0, length = 0;
  int heads = 0, kv_heads = 0, head = 0;
};
template <typename T>
void rotary_forward(const Rotary<T>& rotary, cudaStream_t stream);
template <typename T>
void rotary_backward(const Rotary<T>& rotary, cudaStream_t stream);

// For each of `rows` rows of `logits` [rows, classes]: loss[row] = logsumexp - logit of the target; and
// with `gradient_scale`, on the device, the row becomes (softmax - onehot(target)) * gradient_scale. A target
// below 0 has neither loss nor gradient. Rows are `stride` elements apart (0: `classes`); padding may be
// overwritten.
template <typename T>
void softmax_cross_entropy(T* logits, const std::int64_t* targets, float* loss, std::int64_t rows,
                           int classes, const double* gradient_scale, cudaStream_t stream, int stride = 0);

// result = the sum of n values, times *scale.
void scaled_sum(const float* values, const double* scale, float* result, std::int64_t n, cudaStream_t stream);

// gradient[column] += the sum of the column, over rows of `width` elements; `partial` has room for
// column_sums_partials() floats.
std::int64_t column_sums_partials(std::int64_t rows, int width);
template <typename T>
void add_column_sums(const T* values, float* gradient, float* partial, std::int64_t rows, int width,
                     cudaStream_t stream);

// out [batch, length, width] = row tokens[b, t] of token_weight + row t of position_weight (null: nothing).
template <typename T>
void embed_forward(const T* token_weight, const T* position_weight, const std::int64_t* tokens, T* out,
                   std::int64_t batch, std::int64_t length, int width, cudaStream_t stream);

// Scatters the rows of grad_out [batch, length, width] to the gradients of the weights. The order of sums is
// fixed for positions, and for tokens if `deterministic`.
template <typename T>
struct EmbedBackward {
  const T* grad_out = nullptr;
  const std::int64_t* tokens = nullptr;
  float* grad_tokens = nullptr;     // [vocabulary, width]
  float* grad_positions = nullptr;  // [length or more, width]; null: no position embedding
  std::int64_t batch = 0, length = 0, vocabulary = 0;
  int width = 0;
  bool deterministic = false;
};
template <typename T>
void embed_backward(const EmbedBackward<T>& embed, cudaStream_t stream);

// A dropout mask (core/base/dropout.h).
struct Mask {
  const std::uint64_t* key = nullptr;  // on the device: of the microbatch
  std::uint64_t site = 0;
  DropoutRate rate{};
};

// out = x [.., n2, n1, width] times the mask, plus `residual` unless null; `out` may be either of them.
template <typename T>
struct Drop {
  const T* x = nullptr;
  const T* residual = nullptr;
  T* out = nullptr;
  Mask mask;
  std::int64_t rows = 0, n1 = 1, n2 = 1;
  int width = 0;
};
template <typename T>
void drop(const Drop<T>& drop, cudaStream_t stream);

// Attention weights [batch, heads, length, length] with dropout.
template <typename T>
struct AttentionWeights {
  // Forward: scores, which become the softmax of `scale` times the visible ones, and 0 for hidden ones.
  T* weights = nullptr;
  T* dropped = nullptr;                     // forward: the weights times the mask
  T* gradient = nullptr;                    // backward: of `dropped`, becomes that of the scores
  const std::int64_t* lengths = nullptr;    // forward: of the sequences; null: no padding
  const std::int64_t* positions = nullptr;  // forward, causal: of the tokens in documents; null: one document
  bool causal = false;
  Mask mask;
  std::int64_t batch = 0;
  int heads = 0, length = 0;
  float scale = 1;

  TWOBW_HOST_DEVICE std::int64_t rows() const { return batch * heads * length; }
};
template <typename T>
void attention_weights_forward(const AttentionWeights<T>& attention, cudaStream_t stream);
template <typename T>
void attention_weights_backward(const AttentionWeights<T>& attention, cudaStream_t stream);

// out [rows, width + 2 kv_width] = the rows of q [rows, width], k and v [rows, kv_width] side by side.
template <typename T>
void pack_three(const T* q, const T* k, const T* v, T* out, std::int64_t rows, int width, int kv_width,
                cudaStream_t stream);

}  // namespace twobw::models::cuda
