#include "models/model.h"

#include <map>

#include "base/error.h"

namespace twobw::models {

#define TWOBW_DECLARE(family) Forward forward_of_##family(const ModelConfig&, const architecture::Layer&);
TWOBW_FAMILIES(TWOBW_DECLARE)

namespace {

std::map<std::string, ForwardOf>& forwards_by_family() {
#define TWOBW_ENTRY(family) {#family, forward_of_##family},
  static std::map<std::string, ForwardOf> all = {TWOBW_FAMILIES(TWOBW_ENTRY)};
  return all;
}

}  // namespace

void add_family(architecture::Family family, ForwardOf forward_of) {
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
  return model;
}

Tensors run_layers(const Model& model, int first, int last, std::span<const at::Tensor> parameters, Tensors x,
                   Pass pass, const AfterLayer& after_layer) {
  for (int layer = first; layer < last; ++layer) {
    const std::size_t count = model.layers[layer].parameters.size();
    pass.layer = layer;
    x = model.forwards[layer](parameters.first(count), x, pass);
    parameters = parameters.subspan(count);
    if (after_layer) after_layer(layer, x);
  }
  return x;
}

}  // namespace twobw::models
