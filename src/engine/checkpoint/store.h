// The checkpoints of a run: folders RUN/checkpoints/update-00000040, complete once they have that name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/checkpoint/load.h"
#include "engine/checkpoint/safetensors.h"

namespace twobw::checkpoint {

struct Contents {
  Manifest manifest;                      // write() fills in its files
  std::vector<NamedTensor> model, state;  // the model in stored form: to_stored() of pretrained.h
  ModelFiles model_files;
};

// The folder of a run's checkpoints.
std::string store_of(const std::string& run_dir);

struct Entry {
  std::int64_t update = 0;
  std::string folder;
};
// Complete checkpoints, oldest first; none in a store that does not exist. Throws InputError if it cannot be
// read.
std::vector<Entry> list(const std::string& store);

// Writes a checkpoint and makes it the latest; replaces one of the same update. Returns its size in bytes.
// Throws RunError and leaves no partial checkpoint.
std::uint64_t write(const std::string& store, const Contents& contents);

// Copies the checkpoint in `folder` to another store, by hard links if possible. Throws RunError.
void copy_to(const std::string& store, const std::string& folder);

// Removes partial checkpoints and all but the newest `keep` and the one with the lowest validation loss.
void prune(const std::string& store, int keep);

struct ModelPlace {
  std::string folder;                   // with the weights
  bool is_of_run = false;               // described by the run's config.yaml
  std::optional<std::int64_t> updates;  // made by the run, if known
};

// Resolves a run (its final model, or a later checkpoint's), a checkpoint or a model folder. Throws
// InputError if a run has no model yet.
ModelPlace newest_model(const std::string& path);

}  // namespace twobw::checkpoint
