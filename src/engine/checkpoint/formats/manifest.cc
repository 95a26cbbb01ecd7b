#include "engine/checkpoint/formats/manifest.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <stdexcept>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text_file.h"

namespace twobw::checkpoint {
namespace {

constexpr int kFormat = 1;
constexpr int kDeepest = 16;

Json record_to_json(const FileRecord& record) {
  return {{"name", record.name},
          {"bytes", record.bytes},
          {"header", record.header},
          {"tensors", Json(record.tensors)}};
}

Json data_to_json(const DataFile& file) {
  return {{"key", file.key},
          {"path", file.path},
          {"bytes", file.bytes},
          {"modified", file.modified},
          {"checksum", file.checksum}};
}

// A whole number of at least 0.
std::int64_t read_count(const Json& value, const char* key) {
  const Json& number = value.at(key);
  const bool whole =
      number.is_number_unsigned() && number.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max();
  if (!whole) throw std::out_of_range(key);
  return number.get<std::int64_t>();
}

double read_scale(const Json& value, const char* key) {
  const auto number = value.at(key).get<double>();
  if (!std::isfinite(number) || number < 0) throw std::out_of_range(key);
  return number;
}

[[noreturn]] void refuse_text(const std::string& path) {
  fail_input("'{}' is damaged: it is not the JSON of a checkpoint", path);
}

// The window comes from the configuration, and `judged` is the update.
Json scaling_to_json(const LossScaling& scaling) {
  return {{"scale", scaling.current}, {"next_scale", scaling.next}, {"clean", scaling.clean}};
}

LossScaling scaling_from_json(const Json& value, std::int64_t update) {
  const std::int64_t clean = read_count(value, "clean");
  if (clean > std::numeric_limits<std::int32_t>::max()) throw std::out_of_range("clean");
  return {.current = static_cast<float>(read_scale(value, "scale")),
          .next = static_cast<float>(read_scale(value, "next_scale")),
          .clean = static_cast<std::int32_t>(clean),
          .judged = update};
}

Json without_checksum(const Manifest& manifest) {
  Json files = Json::array();
  for (const FileRecord& record : manifest.files) files.push_back(record_to_json(record));
  Json value = {{"format", kFormat},
                {"update", manifest.update},
                {"drained", manifest.drained},
                {"applied", manifest.applied},
                {"last_scale", manifest.last_scale},
                {"sequences", manifest.sequences},
                {"validation_loss", nullptr},
                {"written", manifest.written},
                {"layout", manifest.layout},
                {"config", manifest.config},
                {"files", files}};
  if (manifest.validation_loss) value["validation_loss"] = *manifest.validation_loss;
  for (const DataFile& file : manifest.data) value["data"].push_back(data_to_json(file));
  if (manifest.scaling) value["loss_scaling"] = scaling_to_json(*manifest.scaling);
  return value;
}

FileRecord record_from_json(const Json& value) {
  FileRecord record;
  record.name = value.at("name").get<std::string>();
  record.bytes = static_cast<std::uint64_t>(read_count(value, "bytes"));
  record.header = value.at("header").get<std::string>();
  for (const auto& [name, sum] : value.at("tensors").items()) record.tensors[name] = sum.get<std::string>();
  return record;
}

DataFile data_from_json(const Json& value) {
  return {.key = value.at("key").get<std::string>(),
          .path = value.at("path").get<std::string>(),
          .bytes = static_cast<std::uint64_t>(read_count(value, "bytes")),
          .modified = value.at("modified").get<std::string>(),
          .checksum = value.at("checksum").get<std::string>()};
}

Manifest from_json(const Json& value) {
  Manifest manifest;
  manifest.update = read_count(value, "update");
  manifest.drained = value.at("drained").get<bool>();
  manifest.applied = read_count(value, "applied");
  manifest.last_scale = read_scale(value, "last_scale");
  manifest.sequences = read_count(value, "sequences");
  if (value.contains("loss_scaling"))
    manifest.scaling = scaling_from_json(value.at("loss_scaling"), manifest.update);
  if (value.at("validation_loss").is_number())
    manifest.validation_loss = value.at("validation_loss").get<double>();
  manifest.written = value.at("written").get<std::string>();
  manifest.layout = value.at("layout");
  manifest.config = value.at("config").get<std::string>();
  if (value.contains("data"))
    for (const Json& file : value.at("data")) manifest.data.push_back(data_from_json(file));
  for (const Json& record : value.at("files")) manifest.files.push_back(record_from_json(record));
  return manifest;
}

}  // namespace

std::string checksum(const void* data, std::size_t bytes) {
  return fmt::format("{:016x}", static_cast<unsigned long long>(XXH3_64bits(data, bytes)));
}

std::string checksum(std::string_view text) {
  return checksum(text.data(), text.size());
}

std::string to_text(const Manifest& manifest) {
  // Parsed again: the text form of a number may change on the way.
  Json value = Json::parse(pretty(without_checksum(manifest)));
  value["checksum"] = checksum(value.dump());
  return pretty(value);
}

Manifest read_manifest(const std::string& folder) {
  const std::string path = folder + "/" + kManifest;
  if (!std::filesystem::is_regular_file(path)) fail_input("'{}' is missing", path);
  return parse_manifest(read_text("checkpoint", path), path);
}

Manifest parse_manifest(const std::string& text, const std::string& path) {
  if (!find_json_problem(text, kDeepest).empty()) refuse_text(path);
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object() || !value.contains("checksum") || !value["checksum"].is_string()) refuse_text(path);
  if (value.contains("format") && value["format"].is_number_integer() && value["format"] != kFormat)
    fail_input("'{}' has format {}; this program reads format {}", path, value["format"].dump(), kFormat);
  const std::string expected = value["checksum"].get<std::string>();
  value.erase("checksum");
  if (checksum(value.dump()) != expected) fail_input("'{}' is damaged: its checksum does not fit", path);
  try {
    return from_json(value);
  } catch (const Json::exception&) {
    fail_input("'{}' is damaged: a field is missing or of another type", path);
  } catch (const std::out_of_range&) {
    fail_input("'{}' is damaged: a number in it is out of range", path);
  }
}

}  // namespace twobw::checkpoint
