#include "engine/models/model.h"

#include <map>

#include "core/base/error.h"
#include "engine/models/decoding.h"
#include "engine/models/ops.h"

namespace twobw::models {

#define TWOBW_DECLARE(family) Forward forward_of_##family(const ModelConfig&, const architecture::Layer&);
TWOBW_FAMILIES(TWOBW_DECLARE)

std::vector<LayerStep> steps_of_gpt(const ModelConfig&, const architecture::Model&);
std::vector<LayerStep> steps_of_llama(const ModelConfig&, const architecture::Model&);

namespace {

std::map<std::string, ForwardOf>& forwards_by_family() {
#define TWOBW_ENTRY(family) {#family, forward_of_##family},
  static std::map<std::string, ForwardOf> all = {TWOBW_FAMILIES(TWOBW_ENTRY)};
  return all;
}

// Decoding steps, of families that have them.
std::map<std::string, StepsOf>& steps_by_family() {
  static std::map<std::string, StepsOf> all = {{"gpt", steps_of_gpt}, {"llama", steps_of_llama}};
  return all;
}

}  // namespace

void add_family(architecture::Family family, ForwardOf forward_of, StepsOf steps_of) {
  if (steps_of) steps_by_family()[family.name] = std::move(steps_of);
  forwards_by_family()[family.name] = std::move(forward_of);
  architecture::add_family(std::move(family));
}

Model build(const ModelConfig& config) {
  Model model{.layers = architecture::model_of(config)};
  const auto forward_of = forwards_by_family().find(config.family);
  TWOBW_ASSERT(forward_of != forwards_by_family().end(), "family '{}' is described, but has no forwards",
               config.family);
  for (const architecture::Layer& layer : model.layers)
    model.forwards.push_back(forward_of->second(config, layer));
  if (const auto steps_of = steps_by_family().find(config.family); steps_of != steps_by_family().end())
    model.steps = steps_of->second(config, model.layers);
  return model;
}

Tensors run_layers(const Model& model, int first, int last, std::span<const at::Tensor> parameters, Tensors x,
                   MicrobatchContext pass, const AfterLayer& after_layer) {
  for (int layer = first; layer < last; ++layer) {
    const std::size_t count = model.layers[layer].parameters.size();
    pass.layer = layer;
    x = model.forwards[layer](parameters.first(count), x, pass);
    parameters = parameters.subspan(count);
    if (after_layer) after_layer(layer, x);
  }
  return x;
}

Tensors last_place(const Tensors& x) {
  Tensors last;
  for (const at::Tensor& tensor : x) last.push_back(tensor.narrow(1, tensor.size(1) - 1, 1));
  return last;
}

Tensors run_steps(const Model& model, int first, int last, std::span<const at::Tensor> parameters, Tensors x,
                  Step step, std::span<const KeyValues> caches) {
  const ops::DecodingScope decoding;
  MicrobatchContext pass;
  pass.batch[Field::Tokens] = step.tokens;
  for (int layer = first; layer < last; ++layer) {
    const LayerStep& of_layer = model.steps[layer];
    const auto own = parameters.first(model.layers[layer].parameters.size());
    parameters = parameters.subspan(own.size());
    step.cache = caches[layer - first];
    pass.layer = layer;
    if (layer + 1 == model.size()) x = last_place(x);
    x = of_layer.forward ? of_layer.forward(own, x, step) : model.forwards[layer](own, x, pass);
  }
  return x;
}

MicrobatchContext MicrobatchContext::to(at::Device device) const {
  MicrobatchContext moved = *this;
  moved.batch = batch.to(device);
  if (device.is_cuda() && training) {
    moved.key_on_gpu =
        at::full({1}, static_cast<std::int64_t>(dropout_key()), at::TensorOptions(device).dtype(at::kLong));
  }
  return moved;
}

at::Tensor token_head(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& bias,
                      const MicrobatchContext& pass) {
  const at::Tensor& targets = pass.batch[Field::Targets];
  if (!targets.defined()) return ops::linear(hidden, weight, bias);
  return ops::head_loss(hidden, weight, bias, targets, pass.batch[Field::LossScale], pass.room,
                        pass.loss_scale);
}

at::Tensor sequence_head(ModelHead head, const at::Tensor& hidden, const at::Tensor& weight,
                         const at::Tensor& bias, const MicrobatchContext& pass) {
  const at::Tensor &labels = pass.batch[Field::Labels], &values = pass.batch[Field::Values];
  const at::Tensor& scale = pass.batch[Field::LossScale];
  if (head == ModelHead::Classification && labels.defined())
    return ops::head_loss(hidden, weight, bias, labels, scale, pass.room, pass.loss_scale);
  const at::Tensor outputs = ops::linear(hidden, weight, bias);
  if (head == ModelHead::Regression && values.defined())
    return ops::squared_error(outputs, values, scale, pass.loss_scale);
  return outputs;
}

}  // namespace twobw::models
