// A run's model once more, as a folder of its own that Hugging Face's transformers reads.
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
  std::string folder;  // is made; must be empty
  std::string dtype = "fp32";
  std::uint64_t shard_bytes = checkpoint::kShardBytes;
};

struct Exported {
  checkpoint::ModelPlace from;
  std::vector<std::string> left_out;        // buffers that are no weights, of types that are not written
  std::vector<std::string> files_left_out;  // weights in other formats, and folders
};

// Writes the weights (checkpoint::write_model), and what lies beside them. Throws InputError.
Exported export_model(const Export& request);

}  // namespace twobw::train
