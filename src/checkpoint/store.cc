#include "checkpoint/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/text_file.h"
#include "checkpoint/checksum.h"
#include "checkpoint/durable.h"
#include "checkpoint/tensor_file.h"

namespace twobw::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr const char* kModel = "model";
constexpr const char* kState = "state.safetensors";
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

// The length of a safetensors file's header, its own eight bytes included, and the header.
std::string read_header(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), sizeof length);
  std::error_code error;
  const std::uint64_t size = fs::file_size(path, error);
  if (!file || error || size < sizeof length || length > size - sizeof length)
    fail_input("'{}' is damaged: its header does not fit", path);
  std::string text(sizeof length + length, '\0');
  file.seekg(0);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file) fail_input("'{}' cannot be read", path);
  return text;
}

bool holds_tensors(const std::string& name) {
  return name.ends_with(".safetensors");
}

// What its own checksum is of: all of it, but for tensors, which have theirs.
std::string read_start(const std::string& path) {
  return holds_tensors(path) ? read_header(path) : read_text("checkpoint", path);
}

// Of a file that has just been written. `sums`: of the tensors in it, and perhaps of others.
FileRecord record_of(const std::string& folder, const std::string& name,
                     const std::map<std::string, std::string>& sums) {
  const std::string path = folder + "/" + name;
  sync_file(path);
  FileRecord record{.name = name, .bytes = fs::file_size(path), .header = checksum(read_start(path))};
  if (!holds_tensors(name)) return record;
  const TensorFile file(path);
  for (const auto& [tensor, stored] : file.tensors()) record.tensors[tensor] = sums.at(tensor);
  return record;
}

// Of the elements, in their order; on the CPU.
std::string tensor_checksum(const at::Tensor& tensor) {
  const at::Tensor data = tensor.contiguous();
  return checksum(data.const_data_ptr(), data.nbytes());
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
  sync_folder(model);
  records.push_back(state.get());
  return records;
}

// Calls report(sentence) for each thing that is wrong; the tensors that are good.
template <typename Report>
std::map<std::string, at::Tensor> read_tensors(const std::string& folder, const FileRecord& record,
                                               const Report& report) {
  const std::string path = folder + "/" + record.name;
  std::error_code error;
  const std::uint64_t size = fs::file_size(path, error);
  if (error) {
    report(fmt::format("'{}' is missing", path));
    return {};
  }
  if (size != record.bytes) {
    report(fmt::format("'{}' is damaged: it has {} bytes, not {}", path, size, record.bytes));
    return {};
  }
  std::map<std::string, at::Tensor> tensors;
  try {
    if (checksum(read_start(path)) != record.header) {
      report(fmt::format("'{}' is damaged: {} does not fit", path,
                         holds_tensors(path) ? "the checksum of its header" : "its checksum"));
      return {};
    }
    if (!holds_tensors(path)) return {};
    tensors = load_safetensors(path);
  } catch (const InputError& refused) {
    report(std::string(refused.what()));
    return {};
  }
  for (const auto& [name, expected] : record.tensors) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) {
      report(fmt::format("'{}' is damaged: '{}' is missing", path, name));
    } else if (tensor_checksum(found->second) != expected) {
      report(fmt::format("'{}' is damaged: the checksum of '{}' does not fit", path, name));
    }
  }
  return tensors;
}

template <typename Report>
Loaded read_all(const std::string& folder, const Report& report) {
  Loaded loaded{.manifest = read_manifest(folder)};
  for (const FileRecord& record : loaded.manifest.files) {
    auto tensors = read_tensors(folder, record, report);
    (record.name == kState ? loaded.state : loaded.model).merge(tensors);
  }
  return loaded;
}

void remove_quietly(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
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
    replace_folder(temporary, folder);
    replace_text(store + "/latest", fs::path(folder).filename().string() + "\n");
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

Loaded load(const std::string& folder) {
  return read_all(folder, [](const std::string& problem) { throw InputError(problem); });
}

std::vector<std::string> find_problems(const std::string& folder) {
  std::vector<std::string> problems;
  try {
    read_all(folder, [&](const std::string& problem) { problems.push_back(problem); });
  } catch (const InputError& error) {
    problems.emplace_back(error.what());
  }
  return problems;
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
