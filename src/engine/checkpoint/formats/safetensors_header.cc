#include "engine/checkpoint/formats/safetensors_header.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/json.h"

namespace twobw::checkpoint {
namespace {

constexpr std::uint64_t kLongestHeader = 100'000'000;  // bytes; the limit of the format
constexpr int kDeepestHeader = 3;
constexpr std::size_t kMostDimensions = 16;

// Bytes per element; nothing for unknown types.
std::optional<std::uint64_t> bytes_of_type(std::string_view dtype) {
  constexpr std::pair<std::string_view, std::uint64_t> types[] = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
      {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4},     {"F64", 8},     {"I64", 8}, {"U64", 8}};
  for (const auto& [name, bytes] : types) {
    if (name == dtype) return bytes;
  }
  return std::nullopt;
}

bool all_natural(const nlohmann::json& entry, const char* key) {
  return entry.contains(key) && entry[key].is_array() &&
         std::all_of(entry[key].begin(), entry[key].end(),
                     [](const nlohmann::json& n) { return n.is_number_unsigned(); });
}

bool describes_tensor(const nlohmann::json& entry) {
  return entry.is_object() && entry.contains("dtype") && entry["dtype"].is_string() &&
         all_natural(entry, "shape") && all_natural(entry, "data_offsets") &&
         entry["shape"].size() <= kMostDimensions && entry["data_offsets"].size() == 2;
}

// Nothing if signed strides or element counts would overflow.
std::optional<std::uint64_t> byte_count(std::uint64_t element, const std::vector<std::uint64_t>& shape) {
  constexpr std::uint64_t most = std::uint64_t{1} << 62;
  std::uint64_t bytes = element;
  bool empty = false;
  for (const std::uint64_t extent : shape) {
    empty = empty || extent == 0;
    const std::uint64_t factor = std::max<std::uint64_t>(extent, 1);
    if (__builtin_mul_overflow(bytes, factor, &bytes) || bytes > most) return std::nullopt;
  }
  return empty ? 0 : bytes;
}

// Offsets are relative to the data and not yet checked against the file.
StoredTensor read_entry(const std::string& name, const nlohmann::json& entry, const std::string& path) {
  if (!describes_tensor(entry))
    fail_input("'{}' is damaged: its header says too little of '{}'", path, shown_name(name));
  StoredTensor tensor{.dtype = entry["dtype"].get<std::string>()};
  const auto element = bytes_of_type(tensor.dtype);
  if (!element)
    fail_input("'{}' holds '{}' as {}, which is not a type of the format", path, shown_name(name),
               shown_name(tensor.dtype));
  const auto shape = entry["shape"].get<std::vector<std::uint64_t>>();
  const auto range = entry["data_offsets"].get<std::vector<std::uint64_t>>();
  if (range[0] > range[1] || byte_count(*element, shape) != range[1] - range[0])
    fail_input("'{}' is damaged: the data of '{}' does not fit its shape", path, shown_name(name));
  for (const std::uint64_t extent : shape) tensor.shape.push_back(static_cast<std::int64_t>(extent));
  tensor.begin = range[0];
  tensor.end = range[1];
  return tensor;
}

// Throws unless the data end with the last tensor.
void check_size(const std::map<std::string, StoredTensor>& tensors, std::uint64_t there,
                const std::string& path) {
  std::uint64_t needed = 0;
  for (const auto& [name, tensor] : tensors) needed = std::max(needed, tensor.end);
  if (there == needed) return;
  fail_input("'{}' is damaged: {}, as its tensors have {} bytes and {} are there", path,
             there < needed ? "its end is missing" : "something follows its end", needed, there);
}

void refuse_overlaps(const std::map<std::string, StoredTensor>& tensors, const std::string& path) {
  struct Place {
    std::uint64_t begin, end;
    const std::string* name;
  };
  std::vector<Place> places;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.bytes() > 0) places.push_back({tensor.begin, tensor.end, &name});
  }
  std::ranges::sort(places, {}, &Place::begin);
  for (std::size_t i = 1; i < places.size(); ++i) {
    if (places[i].begin >= places[i - 1].end) continue;
    fail_input("'{}' is damaged: the data of '{}' and '{}' overlap", path, shown_name(*places[i - 1].name),
               shown_name(*places[i].name));
  }
}

constexpr int kDeepestIndex = 8;

// Whether the name is a printable file name in the folder itself.
bool is_plain_name(const std::string& name) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  return std::filesystem::path(name).filename() == name && name.ends_with(".safetensors") &&
         std::ranges::none_of(name, is_control);
}

}  // namespace

std::map<std::string, StoredTensor> read_header(std::span<const std::byte> file, const std::string& path) {
  std::uint64_t length = 0;
  if (file.size() >= sizeof length) std::memcpy(&length, file.data(), sizeof length);
  if (file.size() < sizeof length || length > file.size() - sizeof length || length > kLongestHeader)
    fail_input("'{}' is not a safetensors file: its header does not fit", path);
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + sizeof length, length);
  const UntrustedJson header = parse_untrusted(text, kDeepestHeader);
  if (!header.problem.empty() || !header.value.is_object())
    fail_input("'{}' is not a safetensors file: its header {}", path,
               header.problem.empty() ? "is not JSON" : header.problem);
  const std::uint64_t data_begin = sizeof length + length;
  std::map<std::string, StoredTensor> tensors;
  for (const auto& [name, entry] : header.value.items()) {
    if (name == "__metadata__") continue;
    tensors[name] = read_entry(name, entry, path);
  }
  check_size(tensors, file.size() - data_begin, path);
  refuse_overlaps(tensors, path);
  for (auto& [name, tensor] : tensors) {
    tensor.begin += data_begin;
    tensor.end += data_begin;
  }
  return tensors;
}

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
