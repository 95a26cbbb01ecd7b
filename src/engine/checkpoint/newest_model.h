// Which folder is meant where a path stands for a trained model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace twobw::checkpoint {

struct ModelPlace {
  std::string folder;                   // of the weights
  bool is_of_run = false;               // config.yaml of the run describes it
  std::optional<std::int64_t> updates;  // that the run had made; nothing: it does not say, or is none
};

// `path` is a run (its newest model: that of its end, or of a later checkpoint), a checkpoint, or the model's
// folder itself. Throws InputError where a run has no model yet.
ModelPlace newest_model(const std::string& path);

}  // namespace twobw::checkpoint
