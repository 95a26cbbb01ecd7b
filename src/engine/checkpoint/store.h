// The checkpoints of a run: folders RUN/checkpoints/update-00000040, each complete from the moment it has its
// name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/checkpoint/load.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/model_folder.h"

namespace twobw::checkpoint {

struct Contents {
  Manifest manifest;                      // its files are filled in by write()
  std::vector<NamedTensor> model, state;  // the model as it is stored: engine/checkpoint/translate.h
  ModelFiles model_files;
};

// Where they are, in a run's folder.
std::string store_of(const std::string& run_dir);

struct Entry {
  std::int64_t update = 0;
  std::string folder;
};
// Oldest first; what is half written or half removed is not among them.
std::vector<Entry> list(const std::string& store);

// Writes one and makes it the latest; one of the same update is replaced. Returns its bytes. Throws RunError,
// and then nothing is left of it.
std::uint64_t write(const std::string& store, const Contents& contents);

// Puts the checkpoint in `folder` into another store, as hard links where the file system allows. Throws
// RunError.
void copy_to(const std::string& store, const std::string& folder);

// Removes all but the newest `keep` and the one with the lowest validation loss, and what was left half
// written.
void prune(const std::string& store, int keep);

}  // namespace twobw::checkpoint
