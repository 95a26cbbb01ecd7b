// The forward of a layer: a pure function of its parameters and its input. It owns no weights, so the same
// forward runs on any weight version.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/base/dropout.h"
#include "engine/data/batch.h"

namespace twobw::models {

using architecture::Field;

// What a layer may know of the microbatch besides its input.
struct MicrobatchContext {
  data::Batch
      batch;  // what its layer takes; without targets or labels a head gives logits instead of the loss
  bool training = false;
  std::uint64_t seed = 0;
  std::int64_t update = 0;
  std::int64_t microbatch = 0;  // within the update
  int layer = 0;                // index in the model; part of the key of every dropout mask
  // With fp16: what the gradient of the loss is multiplied with, but not the loss; one double where the
  // layers compute. Undefined: 1.
  at::Tensor loss_scale{};
  // Memory that a layer on a GPU may use while it computes, and make larger; none: it takes its own.
  at::Tensor* room = nullptr;
  // On a GPU, in training with dropout: [1], int64, the bits of dropout_key. What is captured into a graph
  // reads it there, so that the next microbatch's may be put in its place.
  at::Tensor key_on_gpu{};

  // Of the masks of this microbatch (core/base/dropout.h).
  std::uint64_t dropout_key() const { return twobw::dropout_key(seed, update, microbatch); }

  // The same with its tensors there.
  MicrobatchContext to(at::Device device) const;
};

// What passes from a layer to the next: usually one tensor, more where a cut may fall in the middle of
// a residual branch.
using Tensors = std::vector<at::Tensor>;

// `parameters` in the order of architecture::Layer::parameters. The first layer has no inputs (it reads the
// batch); the last gives the loss, a scalar: see architecture::Model. Gradients of parameters may be
// accumulated straight into their .grad().
using Forward = std::function<Tensors(std::span<const at::Tensor> parameters, const Tensors& inputs,
                                      const MicrobatchContext& pass)>;

namespace ops {

// Packed side by side: heads of queries, then of keys, and as many of values.
struct Heads {
  int queries = 1, keys = 1, size = 1;

  int all() const { return queries + 2 * keys; }
};

}  // namespace ops
}  // namespace twobw::models
