#include "engine/checkpoint/newest_model.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text_file.h"
#include "engine/checkpoint/store.h"

namespace twobw::checkpoint {
namespace {

namespace fs = std::filesystem;

bool is_file(const std::string& path) {
  std::error_code unreadable;
  return fs::is_regular_file(path, unreadable);
}

bool is_folder(const std::string& path) {
  std::error_code unreadable;
  return fs::is_directory(path, unreadable);
}

// As transformers' config.json does, whatever else lies beside it.
bool names_model_type(const std::string& path) {
  constexpr int kDeepest = 64;
  if (!is_file(path)) return false;
  const auto config =
      parse_untrusted(read_model_text("model configuration", path, kLargestConfig), kDeepest).value;
  return config.is_object() && config.contains("model_type");
}

// That the model of a run's end has; nothing where it does not say.
std::optional<std::int64_t> updates_at_end(const std::string& run) {
  const std::string path = run + "/summary.json";
  if (!is_file(path)) return std::nullopt;
  const auto summary = nlohmann::json::parse(read_text("summary", path), nullptr, /*allow_exceptions=*/false);
  if (!summary.is_object() || !summary.contains("updates") || !summary["updates"].is_number_integer())
    return std::nullopt;
  return summary["updates"].get<std::int64_t>();
}

// A run that goes on after its end, or was cut, has a newer model in its last checkpoint.
ModelPlace newest_of_run(const std::string& run) {
  ModelPlace place{.folder = run + "/model", .is_of_run = true, .updates = updates_at_end(run)};
  const bool has_end = is_folder(place.folder);
  const std::vector<Entry> entries = list(store_of(run));
  if (!entries.empty() && (!has_end || entries.back().update > place.updates.value_or(-1))) {
    place.folder = entries.back().folder + "/model";
    place.updates = entries.back().update;
  } else if (!has_end) {
    fail_input("run '{}' has no model yet: neither '{}' nor a checkpoint is there", run, place.folder);
  }
  return place;
}

}  // namespace

ModelPlace newest_model(const std::string& path) {
  if (names_model_type(path + "/config.json")) return {.folder = path};
  if (is_file(path + "/config.yaml")) return newest_of_run(path);
  return {.folder = is_folder(path + "/model") ? path + "/model" : path};
}

}  // namespace twobw::checkpoint
