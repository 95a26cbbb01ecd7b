// Decoding token by token: a layer's forward where its tokens follow others that it has seen. What attention
// needs of those is kept.
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

// Keys and values of a layer of attention, by row and place: [rows, heads of keys, places, size].
struct KeyValues {
  at::Tensor keys, values;
};

// Either the first tokens of a sequence (one row, nothing seen), or one more token of each row.
struct Step {
  at::Tensor tokens;  // [rows, T], int64
  at::Tensor seen;    // [rows], int64: tokens before them; undefined: none, and T may be above 1
  KeyValues cache{};  // of the layer, its rows those of the tokens; undefined where it keeps nothing

  bool begins() const { return !seen.defined(); }
};

using StepForward =
    std::function<Tensors(std::span<const at::Tensor> parameters, const Tensors& inputs, const Step& step)>;

// A layer in a step.
struct LayerStep {
  StepForward forward = {};              // none: its ordinary forward
  std::optional<ops::Heads> keeps = {};  // of attention: whose keys and values it keeps
};

// Of every layer of a family's model; empty: the family, or this model of it, has no steps, and a decoder
// computes all tokens anew for each one more.
using StepsOf =
    std::function<std::vector<LayerStep>(const ModelConfig& config, const architecture::Model& model)>;

namespace ops {

// Keeps the keys and values of packed qkv [rows, T, all size] and gives what causal attention gives
// [rows, T, queries size], the tokens seen before included. Queries and keys are turned first by the angles
// of their places where `angles` are given, as for rotate, of all places. What a row gets depends on that row
// alone.
at::Tensor cached_attention(const at::Tensor& qkv, const Heads& heads, const Step& step,
                            const at::Tensor& angles = {});

// Marks the operations of this thread as a decoder's, for as long as it lives. The shape alone is ambiguous:
// training and evaluation have sequences of one token too.
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

// Whether x [rows, 1, w] is one token a row of a decoder.
bool is_step(const at::Tensor& x);

// x weight^T + bias (or undefined) on CPUs, for the few rows of a decoding step, bound by reading the
// weights. A row's result depends on that row alone; the order of sums of a matrix product may depend on all
// rows.
at::Tensor skinny_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace ops
}  // namespace twobw::models
