// A model that can run: the layers that architecture/ describes, each with its forward.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/base/model_head.h"
#include "engine/models/decoding.h"
#include "engine/models/layer.h"
#include "planning/architecture/families.h"
#include "planning/architecture/layer.h"

namespace twobw::models {

struct Model {
  architecture::Model layers;
  std::vector<Forward> forwards;  // one a layer
  std::vector<LayerStep> steps;   // likewise, or empty: see engine/models/decoding.h

  int size() const { return static_cast<int>(layers.size()); }
};

// Throws InputError for an unknown family, naming the known ones.
Model build(const ModelConfig& config);

// Runs layers [first, last). `parameters` are theirs, in order; `x` is what the layer before them handed on.
// `after_layer`, where it is given, sees what each layer hands on.
using AfterLayer = std::function<void(int layer, const Tensors& outputs)>;
Tensors run_layers(const Model& model, int first, int last, std::span<const at::Tensor> parameters, Tensors x,
                   MicrobatchContext pass, const AfterLayer& after_layer = {});

// Runs layers [first, last) in a step of a decoder, without gradients. `caches` has the keys and values of
// each layer. The model's last layer computes only the last of the first tokens of a sequence.
Tensors run_steps(const Model& model, int first, int last, std::span<const at::Tensor> parameters, Tensors x,
                  Step step, std::span<const KeyValues> caches);

// What the model's last layer is handed, without all places but the last of T.
Tensors last_place(const Tensors& x);

// The forward of a layer that the family describes.
using ForwardOf = std::function<Forward(const ModelConfig& config, const architecture::Layer& layer)>;

// A family of the caller's own, for a program that trains it: what its layers are, and what they compute, in
// steps of a decoder too where it says so.
void add_family(architecture::Family family, ForwardOf forward_of, StepsOf steps_of = {});

// The loss of classification or regression by hidden [b, w], or where the batch has no labels or values, the
// logits [b, outputs]. `bias` may be undefined.
at::Tensor sequence_head(ModelHead head, const at::Tensor& hidden, const at::Tensor& weight,
                         const at::Tensor& bias, const MicrobatchContext& pass);

}  // namespace twobw::models
