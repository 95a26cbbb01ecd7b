// The files of a run's data, and their state as checkpoint.json records it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "engine/checkpoint/formats/manifest.h"

namespace twobw::train {

// Synthetic data have none, token files two.
std::vector<std::string> files_of(const Corpora& corpora);

// Checksum of a file, of a large one of blocks all over it; "cannot be read" if it cannot.
std::string sample_checksum(const std::filesystem::path& file, std::uint64_t size);

// Records the files of data.train, data.validation and data.tokenizer that are not missing.
std::vector<checkpoint::DataFile> record_data(const Config& config);

// A sentence for each file that has another size or checksum than was recorded. A file that is missing has
// not changed: a run does without its tokenizer, and names other data when it opens them.
std::vector<std::string> find_changes(const std::vector<checkpoint::DataFile>& recorded);

}  // namespace twobw::train
