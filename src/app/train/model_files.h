// The folder of a run's model: the weights, and beside them config.json, generation_config.json of a model
// that generates, and the files of data.tokenizer.
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

// The files of a tokenizer by the names that transformers looks for. `tokenizer` as in data.tokenizer: bytes
// has none. Throws InputError where there is no such folder or file.
std::map<std::string, std::filesystem::path> tokenizer_files(const std::string& tokenizer);

// `source`: the folder with the config.json of the model that the run started from, where it started from
// one: whatever that says besides is kept. A model that transformers does not have has no config.json.
// Throws InputError.
checkpoint::ModelFiles model_files(const Config& config, const std::string& source);

// The newest true weights of a stage, flat, on the CPU.
using StageWeights = std::function<at::Tensor(int stage)>;

// Those of all stages, tied weights once, and `files` beside them. A former one is replaced.
void save_model(const StageWeights& weights_of, const runtime::Setup& setup,
                const checkpoint::ModelFiles& files, const std::string& folder);

}  // namespace twobw::train
