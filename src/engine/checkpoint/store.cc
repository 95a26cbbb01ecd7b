#include "engine/checkpoint/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <future>
#include <optional>
#include <system_error>

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "engine/checkpoint/record.h"
#include "engine/checkpoint/tensor_file.h"

namespace twobw::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr const char* kPrefix = "update-";

std::string name_of_update(std::int64_t update) {
  return fmt::format("{}{:08}", kPrefix, update);
}

// Of a folder's name; nothing where it is no checkpoint's.
std::optional<std::int64_t> update_of(const std::string& name) {
  const std::string prefix = kPrefix;
  if (!name.starts_with(prefix)) return std::nullopt;
  std::int64_t update = 0;
  const char* const end = name.data() + name.size();
  const auto [parsed, error] = std::from_chars(name.data() + prefix.size(), end, update);
  if (error != std::errc() || parsed != end || update < 0) return std::nullopt;
  return update;
}

// The record of a new, synced file. `sums`: checksums of its tensors, and perhaps of others.
FileRecord record_of(const std::string& folder, const std::string& name,
                     const std::map<std::string, std::string>& sums) {
  const std::string path = folder + "/" + name;
  FileRecord record{.name = name, .bytes = fs::file_size(path), .header = start_checksum(path)};
  if (!holds_tensors(name)) return record;
  const TensorFile file(path);
  for (const auto& [tensor, stored] : file.tensors()) record.tensors[tensor] = sums.at(tensor);
  return record;
}

// Of the tensors as they are in memory, not as they came to the disk.
std::map<std::string, std::string> sums_of(const std::vector<NamedTensor>& tensors) {
  std::map<std::string, std::string> sums;
  for (const NamedTensor& entry : tensors) sums[entry.name] = tensor_checksum(entry.tensor);
  return sums;
}

FileRecord write_state(const std::string& folder, const Contents& contents) {
  save_safetensors(folder + "/" + kState, contents.state);
  return record_of(folder, kState, sums_of(contents.state));
}

// Both at once: each waits for the disk.
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
  std::error_code impossible;  // another file system, or another user's file
  fs::create_hard_link(file, to, impossible);
  if (!impossible) return;
  fs::copy_file(file, to);
  sync_file(to.string());
}

// Makes `folder` the newest of the store, in the place of one of the same update.
void publish_newest(const std::string& store, const std::string& temporary, const std::string& folder) {
  replace_folder(temporary, folder);
  replace_text(store + "/latest", fs::path(folder).filename().string() + "\n");
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
    // A resumed run may come to an update that was saved before.
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
      continue;  // damaged: not the best
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

}  // namespace twobw::checkpoint
