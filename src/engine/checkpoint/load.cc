#include "engine/checkpoint/load.h"

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <system_error>

#include "core/base/error.h"
#include "engine/checkpoint/record.h"
#include "engine/checkpoint/tensor_file.h"

namespace twobw::checkpoint {
namespace fs = std::filesystem;
namespace {

using Report = std::function<void(const std::string& problem)>;
using IsWanted = std::function<bool(const std::string& name)>;

// What is wrong with a file before its tensors are looked at; empty: nothing.
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

// A view of the file that keeps it.
at::Tensor kept_view(const std::shared_ptr<const TensorFile>& file, const std::string& name) {
  const at::Tensor view = file->view(name);
  if (view.scalar_type() != at::kFloat)
    fail_input("'{}' holds '{}' as {}; only F32 is read", file->path(), name, file->tensors().at(name).dtype);
  if (view.numel() == 0) return view;
  return at::from_blob(
      view.data_ptr(), view.sizes(), [file, view](void*) {}, view.options());
}

void read_tensors(const std::string& path, const FileRecord& record, const IsWanted& is_wanted,
                  const Report& report, std::map<std::string, at::Tensor>& tensors) {
  const auto file = std::make_shared<const TensorFile>(path);
  for (const auto& [name, expected] : record.tensors) {
    if (!is_wanted(name)) continue;
    if (!file->tensors().contains(name)) {
      report(fmt::format("'{}' is damaged: '{}' is missing", path, name));
      continue;
    }
    at::Tensor tensor = kept_view(file, name);
    if (tensor_checksum(tensor) != expected)
      report(fmt::format("'{}' is damaged: the checksum of '{}' does not fit", path, name));
    tensors[name] = std::move(tensor);
  }
}

// Calls report(sentence) for each thing that is wrong.
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

}  // namespace twobw::checkpoint
