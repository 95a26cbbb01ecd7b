// A parameter of ours as the tensors that Hugging Face's layout has of it, and back.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "engine/checkpoint/safetensors.h"
#include "planning/architecture/layer.h"

namespace twobw::checkpoint {

// Views of `ours`.
std::vector<NamedTensor> to_stored(const ModelConfig& model, const architecture::Parameter& parameter,
                                   const at::Tensor& ours);

// Fills `target`, of the parameter's shape. `find` gives a tensor as it is stored, of any number format.
void from_stored(const ModelConfig& model, const architecture::Parameter& parameter,
                 const std::function<at::Tensor(const std::string& name)>& find, const at::Tensor& target);

}  // namespace twobw::checkpoint
