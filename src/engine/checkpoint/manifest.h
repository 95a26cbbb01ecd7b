// checkpoint.json: what a checkpoint is of, and the checksums of all that is in it. Format:
// docs/checkpoints.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/base/loss_scaling.h"

namespace twobw::checkpoint {

inline constexpr const char* kManifest = "checkpoint.json";

struct FileRecord {
  std::string name;
  std::uint64_t bytes = 0;
  std::string header;                          // checksum of what stands before the data
  std::map<std::string, std::string> tensors;  // checksums by name
};

// A file of the data that the run was trained on, when it began or was resumed.
struct DataFile {
  std::string key, path;  // of the configuration that names it
  std::uint64_t bytes = 0;
  std::string modified, checksum;  // UTC; of samples where the file is large
};

struct Manifest {
  std::int64_t update = 0;             // after so many updates
  bool drained = false;                // the next batch has nothing but these weights to run on
  std::int64_t applied = 0;            // updates that were not skipped
  double last_scale = 1;               // the clipping factor of the last of them
  std::optional<LossScaling> scaling;  // with fp16
  std::int64_t sequences = 0;          // that were trained on: the position in the data
  std::optional<double> validation_loss;
  Json layout = Json::object();  // schedule, stages, split, replicas, microbatches of the run that saved it
  std::string config;            // its configuration, YAML
  std::string written;           // when, UTC
  std::vector<DataFile> data;    // empty: not recorded
  std::vector<FileRecord> files;
};

// With a checksum of itself.
std::string to_text(const Manifest& manifest);

// Of the checkpoint in `folder`. Throws InputError: missing, damaged, or of a later format.
Manifest read_manifest(const std::string& folder);
// The same of its text; `path` names it in messages.
Manifest parse_manifest(const std::string& text, const std::string& path);

}  // namespace twobw::checkpoint
