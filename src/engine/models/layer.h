// The forward of a layer: a pure function of its parameters and inputs, so that it runs on any weight
// version.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/base/dropout.h"
#include "engine/data/batch.h"

namespace twobw::models {

using architecture::Field;
using at::Tensor;

// The microbatch of a forward: its data, its keys of randomness, and scratch memory.
struct MicrobatchContext {
  data::Batch batch;  // without targets or labels a head returns logits instead of the loss
  bool training = false;
  std::uint64_t seed = 0;
  std::int64_t update = 0;
  std::int64_t microbatch = 0;  // within the update
  int layer = 0;                // index in the model, part of the key of dropout masks
  // Factor of the loss's gradient, not of the loss, with fp16: one double on the layers' device.
  // Undefined: 1.
  at::Tensor loss_scale{};
  // Scratch memory that a layer on a GPU may use and enlarge; null: it allocates its own.
  at::Tensor* room = nullptr;
  // dropout_key() on the GPU, [1], int64, for training with dropout. Graphs read it there, so that each
  // microbatch can overwrite it.
  at::Tensor key_on_gpu{};

  // The key of the microbatch's masks (core/base/dropout.h).
  std::uint64_t dropout_key() const { return twobw::dropout_key(seed, update, microbatch); }

  // A copy with its tensors on the device.
  MicrobatchContext to(at::Device device) const;
};

// The tensors between layers: usually one, more if a stage boundary may lie within a residual branch.
using Tensors = std::vector<Tensor>;

// `parameters` in the order of architecture::Layer::parameters. The first layer reads the batch and has no
// inputs; the last returns the loss, a scalar (architecture::Model). Gradients of parameters may be
// accumulated directly into their .grad().
using Forward = std::function<Tensors(std::span<const at::Tensor> parameters, const Tensors& inputs,
                                      const MicrobatchContext& pass)>;

namespace ops {

// A tensor as an argument of an autograd function, which takes no undefined ones.
inline std::optional<at::Tensor> given(const at::Tensor& x) {
  return x.defined() ? std::optional(x) : std::nullopt;
}

// Packed side by side: heads of queries, then of keys, and as many of values.
struct Heads {
  int queries = 1, keys = 1, size = 1;

  int all() const { return queries + 2 * keys; }
};

}  // namespace ops
}  // namespace twobw::models
