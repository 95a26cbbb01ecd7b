#include "engine/checkpoint/safetensors_index.h"

#include <algorithm>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/json.h"

namespace twobw::checkpoint {
namespace {

constexpr int kDeepestIndex = 8;

// A file of the folder itself, by a name that a message can show.
bool is_plain_name(const std::string& name) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  return std::filesystem::path(name).filename() == name && name.ends_with(".safetensors") &&
         std::ranges::none_of(name, is_control);
}

}  // namespace

std::map<std::string, std::string> parse_index(std::string_view text, const std::string& path) {
  const UntrustedJson index = parse_untrusted(text, kDeepestIndex);
  if (!index.problem.empty()) fail_input("'{}' {}", path, index.problem);
  const auto map = index.value.is_object() ? index.value.find("weight_map") : index.value.end();
  if (map == index.value.end() || !map->is_object() || map->empty())
    fail_input("'{}' has no weight_map; it must say which file holds which tensor", path);
  std::map<std::string, std::string> files;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string()) fail_input("'{}' names no file for '{}'", path, shown_name(name));
    files[name] = file.get<std::string>();
    if (!is_plain_name(files[name]))
      fail_input(
          "'{}' names the file '{}'; it must be a .safetensors file of the same folder, without control "
          "characters",
          path, shown_name(files[name]));
  }
  return files;
}

void check_index(const std::map<std::string, std::string>& index,
                 const std::map<std::string, std::set<std::string>>& tensors, const std::string& path) {
  for (const auto& [name, file] : index) {
    const auto found = tensors.find(file);
    if (found == tensors.end() || !found->second.contains(name))
      fail_input("'{}' says that '{}' holds '{}', which it does not", path, shown_name(file),
                 shown_name(name));
  }
  for (const auto& [file, names] : tensors) {
    for (const std::string& name : names) {
      const auto listed = index.find(name);
      if (listed == index.end())
        fail_input("'{}' does not list '{}', which '{}' holds", path, shown_name(name), shown_name(file));
      if (listed->second != file)
        fail_input("'{}' has '{}' in '{}', and '{}' holds it too; it must be in one file", path,
                   shown_name(name), shown_name(listed->second), shown_name(file));
    }
  }
}

}  // namespace twobw::checkpoint
