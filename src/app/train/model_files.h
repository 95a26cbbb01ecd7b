// Folders that Hugging Face transformers reads: of a run's model, with weights, config.json,
// generation_config.json (causal_lm) and the files of data.tokenizer, and exported ones.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/store.h"
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

// Number formats of exported weights: fp32, bf16, fp16.
const std::vector<std::string>& export_dtypes();

struct Export {
  std::string from;    // a run, a checkpoint, or a model's folder: checkpoint::newest_model
  std::string folder;  // created; must be empty
  std::string dtype = "fp32";
  std::uint64_t shard_bytes = checkpoint::kShardBytes;
};

struct Exported {
  checkpoint::ModelPlace from;
  std::vector<std::string> left_out;        // buffers (not weights) whose type cannot be written
  std::vector<std::string> files_left_out;  // weights in other formats, and folders
};

// Writes the weights (checkpoint::write_model) and copies the other files of the model. Throws InputError.
Exported export_model(const Export& request);

}  // namespace twobw::train
