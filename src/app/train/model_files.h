// What lies beside the weights in the folder of a run's model: config.json, generation_config.json of a model
// that generates, and the files of data.tokenizer.
#pragma once

#include <string>

#include "core/base/config.h"
#include "engine/checkpoint/safetensors.h"

namespace twobw::train {

// `source`: the folder with the config.json of the model that the run started from, where it started from
// one: whatever that says besides is kept. A model that transformers does not have has no config.json.
// Throws InputError.
checkpoint::ModelFiles model_files(const Config& config, const std::string& source);

}  // namespace twobw::train
