// Decoding token by token with a KV cache.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/base/config.h"
#include "engine/models/layer.h"
#include "planning/architecture/layer.h"

namespace twobw::models {

// KV cache of an attention layer: [rows, heads of keys, positions, size].
struct KeyValues {
  at::Tensor keys, values;
};

// The prompt of a sequence (one row), or one more token of each row.
struct Step {
  at::Tensor tokens;  // [rows, T], int64
  at::Tensor seen;    // [rows], int64: number of earlier tokens; undefined: none, and T may exceed 1
  KeyValues cache{};  // of the layer, for these rows; undefined for layers without a cache

  bool begins() const { return !seen.defined(); }
};

using StepForward =
    std::function<Tensors(std::span<const at::Tensor> parameters, const Tensors& inputs, const Step& step)>;

// A layer in a step.
struct LayerStep {
  StepForward forward = {};              // empty: the ordinary forward
  std::optional<ops::Heads> keeps = {};  // the heads that it caches, of attention
};

// The steps of all layers of a family's model; if empty, a decoder recomputes the whole
// sequence for each token.
using StepsOf =
    std::function<std::vector<LayerStep>(const ModelConfig& config, const architecture::Model& model)>;

namespace ops {

// Appends the keys and values of packed qkv [rows, T, all size] to the cache and returns causal attention
// [rows, T, queries size] over it. With `angles` of all positions, queries and keys are rotated first
// (rotate()). A row's result depends on that row only.
at::Tensor cached_attention(const at::Tensor& qkv, const Heads& heads, const Step& step,
                            const at::Tensor& angles = {});

// Scope in which this thread's operations are a decoder's. The shape alone is ambiguous: training and
// evaluation have sequences of one token too.
class DecodingScope {
 public:
  DecodingScope();
  ~DecodingScope();
  DecodingScope(const DecodingScope&) = delete;
  DecodingScope& operator=(const DecodingScope&) = delete;

 private:
  at::NoGradGuard no_grad_;  // these kernels have no backward
  bool outer_;
};

// Whether x is a decoder's [rows, 1, w].
bool is_step(const at::Tensor& x);

// x weight^T + bias (or undefined) on CPUs, for the few rows of a decoding step, bound by reading the
// weights. A row's result depends on that row alone; the order of sums of a matrix product may depend on all
// rows.
at::Tensor skinny_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace ops
}  // namespace twobw::models
