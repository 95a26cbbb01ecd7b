// From a configuration to a list of layers, by the name of the model's family.
#pragma once

#include <string>
#include <vector>

#include "base/config.h"
#include "models/layer.h"

namespace twobw::models {

// Throws InputError for an unknown family, naming the known ones.
LayerList build(const ModelConfig& config);

std::int64_t parameter_count(const LayerList& layers);  // tied weights once

// "42 layers: embedding, 8 x (attention_in, attention_out, mlp_up, mlp_activation, mlp_down), head".
std::string describe(const LayerList& layers);

// The registered families. A new model is a new file with a builder and one line in registry.cc.
struct Family {
  std::string name;
  LayerList (*build)(const ModelConfig&);
};
const std::vector<Family>& families();

LayerList build_gpt(const ModelConfig& config);

}  // namespace twobw::models
