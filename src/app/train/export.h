// The trained model as a folder.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string>

#include "engine/checkpoint/safetensors.h"
#include "engine/runtime/setup.h"

namespace twobw::train {

// The newest true weights of a stage, flat, on the CPU.
using StageWeights = std::function<at::Tensor(int stage)>;

// Those of all stages, tied weights once, and `files` beside them. A former one is replaced.
void save_model(const StageWeights& weights_of, const runtime::Setup& setup,
                const checkpoint::ModelFiles& files, const std::string& folder);

}  // namespace twobw::train
