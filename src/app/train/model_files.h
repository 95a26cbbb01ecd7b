// The folder of a run's model: weights, config.json, generation_config.json (causal_lm) and the files of
// data.tokenizer.
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "core/base/config.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/runtime/setup.h"

namespace twobw::train {

// The files of data.tokenizer by the names that transformers expects; empty for bytes. Throws InputError if
// the folder or file is missing.
std::map<std::string, std::filesystem::path> tokenizer_files(const std::string& tokenizer);

// `source`: the folder with the config.json of the imported model, whose other entries are kept; it may be
// missing. A model that transformers does not have gets no config.json. Throws InputError.
checkpoint::ModelFiles model_files(const Config& config, const std::string& source);

// The newest true weights of a stage, flat, on the CPU.
using StageWeights = std::function<at::Tensor(int stage)>;

// Writes the weights of all stages, tied ones once, and `files`. Replaces a former model.
void save_model(const StageWeights& weights_of, const runtime::Setup& setup,
                const checkpoint::ModelFiles& files, const std::string& folder);

}  // namespace twobw::train
