#include "engine/checkpoint/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/mapped_file.h"
#include "core/base/output_file.h"
#include "core/base/text_file.h"
#include "engine/checkpoint/safetensors.h"

namespace twobw::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr const char* kPrefix = "update-";
constexpr const char* kModel = "model";              // folder of the weights
constexpr const char* kState = "state.safetensors";  // optimizer state and the weights of the next batch

std::string name_of_update(std::int64_t update) {
  return fmt::format("{}{:08}", kPrefix, update);
}

// The update in a folder's name; nothing for other folders.
std::optional<std::int64_t> update_of(const std::string& name) {
  const std::string prefix = kPrefix;
  if (!name.starts_with(prefix)) return std::nullopt;
  std::int64_t update = 0;
  const char* const end = name.data() + name.size();
  const auto [parsed, error] = std::from_chars(name.data() + prefix.size(), end, update);
  if (error != std::errc() || parsed != end || update < 0) return std::nullopt;
  return update;
}

bool holds_tensors(const std::string& name) {
  return name.ends_with(".safetensors");
}

// Checksum of a safetensors header, or of a whole file of another kind. Throws InputError.
std::string start_checksum(const std::string& path) {
  if (!holds_tensors(path)) return checksum(read_text("checkpoint", path));
  const MappedFile file(path);
  if (!file.problem().empty()) fail_input("'{}' cannot be read: {}", path, file.problem());
  std::uint64_t length = 0;  // of the header
  if (file.bytes().size() >= sizeof length) std::memcpy(&length, file.bytes().data(), sizeof length);
  if (file.bytes().size() < sizeof length || length > file.bytes().size() - sizeof length)
    fail_input("'{}' is damaged: its header does not fit", path);
  return checksum(file.bytes().data(), sizeof length + length);
}

std::string tensor_checksum(const at::Tensor& tensor) {
  const at::Tensor data = tensor.contiguous();
  return checksum(data.const_data_ptr(), data.nbytes());
}

// The record of a synced file. `sums`: tensor checksums, at least of its own.
FileRecord record_of(const std::string& folder, const std::string& name,
                     const std::map<std::string, std::string>& sums) {
  const std::string path = folder + "/" + name;
  FileRecord record{.name = name, .bytes = fs::file_size(path), .header = start_checksum(path)};
  if (!holds_tensors(name)) return record;
  const TensorFile file(path);
  for (const auto& [tensor, stored] : file.tensors()) record.tensors[tensor] = sums.at(tensor);
  return record;
}

// Checksums of the tensors in memory, so that write errors show.
std::map<std::string, std::string> sums_of(const std::vector<NamedTensor>& tensors) {
  std::map<std::string, std::string> sums;
  for (const NamedTensor& entry : tensors) sums[entry.name] = tensor_checksum(entry.tensor);
  return sums;
}

FileRecord write_state(const std::string& folder, const Contents& contents) {
  save_safetensors(folder + "/" + kState, contents.state);
  return record_of(folder, kState, sums_of(contents.state));
}

// Writes state and model concurrently: both wait for the disk.
std::vector<FileRecord> write_files(const std::string& folder, const Contents& contents) {
  auto state = std::async(std::launch::async, [&] { return write_state(folder, contents); });
  const std::string model = folder + "/" + kModel;
  write_model(model, contents.model, contents.model_files);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(model))
    names.push_back(std::string(kModel) + "/" + entry.path().filename().string());
  std::ranges::sort(names);
  std::vector<FileRecord> records;
  const auto sums = sums_of(contents.model);
  for (const std::string& name : names) records.push_back(record_of(folder, name, sums));
  records.push_back(state.get());
  return records;
}

void remove_quietly(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

void link_or_copy(const fs::path& file, const fs::path& to) {
  std::error_code impossible;  // another file system, or a file of another user
  fs::create_hard_link(file, to, impossible);
  if (!impossible) return;
  fs::copy_file(file, to);
  sync_file(to.string());
}

// Makes `folder` the latest of the store and replaces one of the same update.
void publish_newest(const std::string& store, const std::string& temporary, const std::string& folder) {
  replace_folder(temporary, folder);
  replace_text(store + "/latest", fs::path(folder).filename().string() + "\n");
}

bool is_folder(const std::string& path) {
  std::error_code unreadable;
  return fs::is_directory(path, unreadable);
}

// Whether it is a transformers config.json.
bool names_model_type(const std::string& path) {
  constexpr int kDeepest = 64;
  if (!is_file(path)) return false;
  const auto config =
      parse_untrusted(read_model_text("model configuration", path, kLargestConfig), kDeepest).value;
  return config.is_object() && config.contains("model_type");
}

// Updates of the run's final model, if summary.json has them.
std::optional<std::int64_t> updates_at_end(const std::string& run) {
  const std::string path = run + "/summary.json";
  if (!is_file(path)) return std::nullopt;
  const auto summary = nlohmann::json::parse(read_text("summary", path), nullptr, /*allow_exceptions=*/false);
  if (!summary.is_object() || !summary.contains("updates") || !summary["updates"].is_number_integer())
    return std::nullopt;
  return summary["updates"].get<std::int64_t>();
}

// A run that was interrupted, or resumed after its end, has a newer model in its last checkpoint.
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

using Report = std::function<void(const std::string& problem)>;
using IsWanted = std::function<bool(const std::string& name)>;

// A defect that shows without reading tensors; empty if intact.
std::string problem_of_file(const std::string& path, const FileRecord& record) {
  std::error_code error;
  const std::uint64_t size = fs::file_size(path, error);
  if (error) return fmt::format("'{}' is missing", path);
  if (size != record.bytes)
    return fmt::format("'{}' is damaged: it has {} bytes, not {}", path, size, record.bytes);
  if (start_checksum(path) == record.header) return {};
  return fmt::format("'{}' is damaged: {} does not fit", path,
                     holds_tensors(path) ? "the checksum of its header" : "its checksum");
}

void read_tensors(const std::string& path, const FileRecord& record, const IsWanted& is_wanted,
                  const Report& report, std::map<std::string, at::Tensor>& tensors) {
  const TensorFile file(path);
  for (const auto& [name, expected] : record.tensors) {
    if (!is_wanted(name)) continue;
    if (!file.tensors().contains(name)) {
      report(fmt::format("'{}' is damaged: '{}' is missing", path, name));
      continue;
    }
    at::Tensor tensor = file.view(name);
    if (tensor.scalar_type() != at::kFloat)
      fail_input("'{}' holds '{}' as {}; only F32 is read", path, name, file.tensors().at(name).dtype);
    if (tensor_checksum(tensor) != expected)
      report(fmt::format("'{}' is damaged: the checksum of '{}' does not fit", path, name));
    tensors[name] = std::move(tensor);
  }
}

// Calls report(sentence) for each defect.
Loaded read_all(const std::string& folder, const Wanted& wanted, const Report& report) {
  Loaded loaded{.manifest = read_manifest(folder), .model = {}, .state = {}};
  for (const FileRecord& record : loaded.manifest.files) {
    const std::string path = folder + "/" + record.name;
    const bool is_state = record.name == kState;
    std::string problem;
    try {
      problem = problem_of_file(path, record);
      if (problem.empty() && holds_tensors(path))
        read_tensors(path, record, is_state ? wanted.state : wanted.model, report,
                     is_state ? loaded.state : loaded.model);
    } catch (const InputError& refused) {
      problem = refused.what();
    }
    if (!problem.empty()) report(problem);
  }
  return loaded;
}

bool every_tensor(const std::string&) {
  return true;
}

}  // namespace

std::string store_of(const std::string& run_dir) {
  return run_dir + "/checkpoints";
}

std::vector<Entry> list(const std::string& store) {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::directory_iterator at(store, error), end; !error && at != end; at.increment(error)) {
    std::error_code unknown;
    const std::optional<std::int64_t> update = update_of(at->path().filename().string());
    if (update && at->is_directory(unknown)) entries.push_back({*update, at->path().string()});
  }
  // A link to a disk that is not mounted is not a store without checkpoints.
  std::error_code unknown;
  if (error && fs::symlink_status(store, unknown).type() != fs::file_type::not_found)
    fail_input("'{}' cannot be read: {}", store, error.message());
  std::ranges::sort(entries, {}, &Entry::update);
  return entries;
}

std::uint64_t write(const std::string& store, const Contents& contents) {
  const std::string folder = store + "/" + name_of_update(contents.manifest.update);
  const std::string temporary = folder + ".partial";
  try {
    remove_quietly(temporary);
    fs::create_directories(temporary);
    Manifest manifest = contents.manifest;
    manifest.files = write_files(temporary, contents);
    replace_text(temporary + "/" + kManifest, to_text(manifest));
    sync_folder(temporary);
    // A resumed run may reach an update that was saved before.
    publish_newest(store, temporary, folder);
    std::uint64_t bytes = 0;
    for (const FileRecord& record : manifest.files) bytes += record.bytes;
    return bytes;
  } catch (const fs::filesystem_error& error) {
    remove_quietly(temporary);
    fail_run("{}", error.what());
  } catch (...) {
    remove_quietly(temporary);
    throw;
  }
}

Loaded load(const std::string& folder, const Wanted& wanted) {
  return read_all(folder, wanted, [](const std::string& problem) { throw InputError(problem); });
}

Loaded load(const std::string& folder) {
  return load(folder, {.model = every_tensor, .state = every_tensor});
}

std::vector<std::string> find_problems(const std::string& folder) {
  std::vector<std::string> problems;
  try {
    read_all(folder, {.model = every_tensor, .state = every_tensor},
             [&](const std::string& problem) { problems.push_back(problem); });
  } catch (const InputError& error) {
    problems.emplace_back(error.what());
  }
  return problems;
}

void copy_to(const std::string& store, const std::string& folder) {
  const std::string copy = store + "/" + fs::path(folder).filename().string(), temporary = copy + ".partial";
  try {
    fs::create_directories(temporary + "/" + kModel);
    for (const FileRecord& file : read_manifest(folder).files)
      link_or_copy(folder + "/" + file.name, temporary + "/" + file.name);
    link_or_copy(folder + "/" + kManifest, temporary + "/" + kManifest);
    sync_folder(temporary + "/" + kModel);
    sync_folder(temporary);
    publish_newest(store, temporary, copy);
  } catch (const std::exception& error) {
    remove_quietly(temporary);
    fail_run("the checkpoint '{}' cannot be copied to '{}': {}", folder, store, error.what());
  }
}

void prune(const std::string& store, int keep) {
  const std::vector<Entry> entries = list(store);
  std::string best;
  double lowest = 0;
  for (const Entry& entry : entries) {
    try {
      const Manifest manifest = read_manifest(entry.folder);
      if (!manifest.validation_loss || (!best.empty() && *manifest.validation_loss >= lowest)) continue;
      best = entry.folder;
      lowest = *manifest.validation_loss;
    } catch (const InputError&) {
      continue;  // damaged
    }
  }
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < entries.size(); ++i) {
    if (entries[i].folder == best) continue;
    // Renamed first: a folder with a checkpoint's name is complete.
    std::error_code error;
    fs::rename(entries[i].folder, entries[i].folder + ".removing", error);
  }
  std::vector<std::string> leftovers;
  std::error_code error;
  for (fs::directory_iterator at(store, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(kPrefix) && (name.ends_with(".partial") || name.ends_with(".removing")))
      leftovers.push_back(at->path().string());
  }
  for (const std::string& path : leftovers) remove_quietly(path);
}

ModelPlace newest_model(const std::string& path) {
  if (names_model_type(path + "/config.json")) return {.folder = path};
  if (is_file(path + "/config.yaml")) return newest_of_run(path);
  return {.folder = is_folder(path + "/model") ? path + "/model" : path};
}

}  // namespace twobw::checkpoint
