#include "engine/checkpoint/load.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text_file.h"
#include "engine/checkpoint/safetensors.h"

namespace twobw::checkpoint {
namespace fs = std::filesystem;
namespace {

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

bool holds_tensors(const std::string& name) {
  return name.ends_with(".safetensors");
}

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
