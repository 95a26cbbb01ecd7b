// A model is a list of layers; a stage runs a contiguous part of it. A layer is a pure function of
// its parameters and its input: it owns no weights, so the same layer runs on any weight version.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace twobw::models {

struct ParameterSpec {
  std::string name;  // unique in the model
  std::vector<std::int64_t> shape;
  double init_std = 0.0;  // normal around init_mean
  double init_mean = 0.0;
  bool decay = true;      // weight decay applies: not to biases and norms
  std::string tied_to{};  // shares its weights with that parameter; gradients are summed
};

// What a layer may know of the microbatch besides its input.
struct Pass {
  at::Tensor tokens;   // [b, T] int64
  at::Tensor targets;  // [b, T] int64; undefined: the head gives logits instead of the loss
  bool training = false;
  double loss_scale = 1.0;  // the head multiplies the gradient (not the loss it reports) by this
  std::uint64_t seed = 0;
  std::int64_t update = 0;
  std::int64_t microbatch = 0;  // within the update
  int layer = 0;                // index in the model; part of the key of every dropout mask
  // Memory that a layer on a GPU may use while it computes, and make larger; none: it takes its own.
  at::Tensor* room = nullptr;
};

// What passes from a layer to the next: usually one tensor, more where a cut may fall in the middle of
// a residual branch.
using Tensors = std::vector<at::Tensor>;

class Layer {
 public:
  virtual ~Layer() = default;

  // Layers of one kind and shape take the same time: "attention_in", "mlp_up", "head", ...
  virtual std::string kind() const = 0;
  virtual std::vector<ParameterSpec> parameters() const = 0;

  // `parameters` in the order of parameters(). The first layer has no inputs (it reads pass.tokens); the
  // last gives the mean loss, a scalar. Gradients of parameters may be accumulated straight into
  // their .grad().
  virtual Tensors forward(std::span<const at::Tensor> parameters, const Tensors& inputs,
                          const Pass& pass) const = 0;
};

using LayerList = std::vector<std::unique_ptr<Layer>>;

}  // namespace twobw::models
