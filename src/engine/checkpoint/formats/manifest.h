// checkpoint.json: contents and checksums of a checkpoint (docs/reference/checkpoint-format.md). No LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/base/loss_scaling.h"

namespace twobw::checkpoint {

// XXH3, 16 hexadecimal digits: detects damage, not tampering.
std::string checksum(const void* data, std::size_t bytes);
std::string checksum(std::string_view text);

inline constexpr const char* kManifest = "checkpoint.json";

struct FileRecord {
  std::string name;
  std::uint64_t bytes = 0;
  std::string header;                          // of the safetensors header, or of the whole file
  std::map<std::string, std::string> tensors;  // checksums by name
};

// A data file of the run, as it was at the start or the last resume.
struct DataFile {
  std::string key, path;  // configuration key
  std::uint64_t bytes = 0;
  std::string modified, checksum;  // time in UTC; large files are sampled
};

struct Manifest {
  std::int64_t update = 0;   // number of updates made
  bool drained = false;      // no microbatch was in flight: the next batch computes on these weights
  std::int64_t applied = 0;  // updates that were not skipped
  double last_scale = 1;     // clipping factor of the last one
  std::optional<LossScaling> scaling;  // with fp16
  std::int64_t sequences = 0;          // trained on so far: the position in the data
  std::optional<double> validation_loss;
  Json layout = Json::object();  // schedule, stages, split, replicas, microbatches
  std::string config;            // YAML
  std::string written;           // time in UTC
  std::vector<DataFile> data;    // empty: not recorded
  std::vector<FileRecord> files;
};

// JSON with a checksum of itself.
std::string to_text(const Manifest& manifest);

// Throws InputError if the manifest is missing, damaged or of a later format.
Manifest read_manifest(const std::string& folder);
// Parses its text; `path` names it in messages.
Manifest parse_manifest(const std::string& text, const std::string& path);

}  // namespace twobw::checkpoint
