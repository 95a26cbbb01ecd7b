// Exports a run's model as a folder that Hugging Face transformers reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/store.h"

namespace twobw::train {

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
