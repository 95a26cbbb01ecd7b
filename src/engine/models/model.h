// A runnable model: the layers that planning/architecture describes, with their forwards.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/base/error.h"
#include "core/base/kinds.h"
#include "engine/models/decoding.h"
#include "engine/models/layer.h"
#include "planning/architecture/families.h"
#include "planning/architecture/layer.h"

namespace twobw::models {

struct Model {
  architecture::Model layers;
  std::vector<Forward> forwards;  // by layer
  std::vector<LayerStep> steps;   // by layer, or empty: see engine/models/decoding.h

  int size() const { return static_cast<int>(layers.size()); }
};

// Throws InputError for an unknown family, naming the known ones.
Model build(const ModelConfig& config);

// Runs layers [first, last) with their parameters on `x`, the output of the layer before. `after_layer` is
// called with each layer's output.
using AfterLayer = std::function<void(int layer, const Tensors& outputs)>;
Tensors run_layers(const Model& model, int first, int last, std::span<const at::Tensor> parameters, Tensors x,
                   MicrobatchContext pass, const AfterLayer& after_layer = {});

// Runs layers [first, last) in a decoding step, without gradients. `caches`: the KV cache of each layer. The
// model's last layer computes only the last token of a prompt.
Tensors run_steps(const Model& model, int first, int last, std::span<const at::Tensor> parameters, Tensors x,
                  Step step, std::span<const KeyValues> caches);

// The inputs of the model's last layer for the last of T tokens.
Tensors last_place(const Tensors& x);

// Makes the forward of a layer of a family.
using ForwardOf = std::function<Forward(const ModelConfig& config, const architecture::Layer& layer)>;

// Registers a family of an external program: its layers, their forwards and, optionally, decoding steps.
void add_family(architecture::Family family, ForwardOf forward_of, StepsOf steps_of = {});

// Makes the forward of a layer as a member function of a family's values, chosen by the layer's kind.
template <typename Family>
using LayerForward = Tensors (Family::*)(std::span<const at::Tensor> parameters, const Tensors& inputs,
                                         const MicrobatchContext& pass) const;
template <typename Family>
Forward forward_of_kind(const Family& family, const architecture::Layer& layer,
                        const std::map<std::string, LayerForward<Family>>& by_kind) {
  const auto found = by_kind.find(layer.kind);
  TWOBW_ASSERT(found != by_kind.end(), "no forward for a layer of kind {}", layer.kind);
  return std::bind_front(found->second, family);
}

// The head of a language model on hidden [.., w]: the loss, or logits [.., V] if the batch has no targets.
// `bias` may be undefined.
at::Tensor token_head(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& bias,
                      const MicrobatchContext& pass);

// The head of classification or regression on hidden [b, w]: the loss, or logits [b, outputs] if the batch
// has neither labels nor values. `bias` may be undefined.
at::Tensor sequence_head(ModelHead head, const at::Tensor& hidden, const at::Tensor& weight,
                         const at::Tensor& bias, const MicrobatchContext& pass);

}  // namespace twobw::models
