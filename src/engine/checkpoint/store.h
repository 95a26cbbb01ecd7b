// The checkpoints of a run: folders RUN/checkpoints/update-00000040, complete once they have that name.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/checkpoint/formats/manifest.h"
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

struct Loaded {
  Manifest manifest;
  // Read-only views of mapped files, which must not change during their lifetime.
  std::map<std::string, at::Tensor> model, state;
};

// Selection by stored tensor name.
struct Wanted {
  std::function<bool(const std::string&name)> model, state;
};

// Verifies the checksums of the manifest, of all headers and other files, and of the selected tensors; other
// tensors are not read. Throws InputError naming the file and tensor.
Loaded load(const std::string& folder, const Wanted& wanted);
// Selects all tensors.
Loaded load(const std::string& folder);
// All defects, one sentence each; empty if the checkpoint is intact.
std::vector<std::string> find_problems(const std::string& folder);

struct ModelPlace {
  std::string folder;                   // with the weights
  bool is_of_run = false;               // described by the run's config.yaml
  std::optional<std::int64_t> updates;  // made by the run, if known
};

// Resolves a run (its final model, or a later checkpoint's), a checkpoint or a model folder. Throws
// InputError if a run has no model yet.
ModelPlace newest_model(const std::string& path);

}  // namespace twobw::checkpoint
