#include "checkpoint/manifest.h"

#include <filesystem>

#include "base/error.h"
#include "base/text_file.h"
#include "checkpoint/checksum.h"

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

FileRecord record_from_json(const Json& value) {
  FileRecord record;
  record.name = value.at("name").get<std::string>();
  record.bytes = value.at("bytes").get<std::uint64_t>();
  record.header = value.at("header").get<std::string>();
  for (const auto& [name, sum] : value.at("tensors").items()) record.tensors[name] = sum.get<std::string>();
  return record;
}

// How many batches it knows of is the update's number, and the window the configuration's.
Json scaling_to_json(const LossScaling& scaling) {
  return {{"scale", scaling.current}, {"next_scale", scaling.next}, {"clean", scaling.clean}};
}

LossScaling scaling_from_json(const Json& value, std::int64_t update) {
  return {.current = value.at("scale").get<float>(),
          .next = value.at("next_scale").get<float>(),
          .clean = value.at("clean").get<std::int32_t>(),
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
  if (manifest.scaling) value["loss_scaling"] = scaling_to_json(*manifest.scaling);
  return value;
}

Manifest from_json(const Json& value) {
  Manifest manifest;
  manifest.update = value.at("update").get<std::int64_t>();
  manifest.drained = value.at("drained").get<bool>();
  manifest.applied = value.at("applied").get<std::int64_t>();
  manifest.last_scale = value.at("last_scale").get<double>();
  manifest.sequences = value.at("sequences").get<std::int64_t>();
  if (value.contains("loss_scaling"))
    manifest.scaling = scaling_from_json(value.at("loss_scaling"), manifest.update);
  if (value.at("validation_loss").is_number())
    manifest.validation_loss = value.at("validation_loss").get<double>();
  manifest.written = value.at("written").get<std::string>();
  manifest.layout = value.at("layout");
  manifest.config = value.at("config").get<std::string>();
  for (const Json& record : value.at("files")) manifest.files.push_back(record_from_json(record));
  return manifest;
}

}  // namespace

std::string to_text(const Manifest& manifest) {
  // As it will be read: a number may be written in another form than it is dumped in.
  Json value = Json::parse(pretty(without_checksum(manifest)));
  value["checksum"] = checksum(value.dump());
  return pretty(value);
}

Manifest read_manifest(const std::string& folder) {
  const std::string path = folder + "/" + kManifest;
  if (!std::filesystem::is_regular_file(path)) fail_input("'{}' is missing", path);
  // Deeper than any that is written: what is below is left out, and the checksum does not fit.
  const auto is_shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= kDeepest; };
  Json value = Json::parse(read_text("checkpoint", path), is_shallow, /*allow_exceptions=*/false);
  if (!value.is_object() || !value.contains("checksum") || !value["checksum"].is_string())
    fail_input("'{}' is damaged: it is not the JSON of a checkpoint", path);
  if (value.contains("format") && value["format"].is_number_integer() && value["format"] != kFormat)
    fail_input("'{}' has format {}; this program reads format {}", path, value["format"].dump(), kFormat);
  const std::string expected = value["checksum"].get<std::string>();
  value.erase("checksum");
  if (checksum(value.dump()) != expected) fail_input("'{}' is damaged: its checksum does not fit", path);
  try {
    return from_json(value);
  } catch (const Json::exception&) {
    fail_input("'{}' is damaged: a field is missing or of another type", path);
  }
}

}  // namespace twobw::checkpoint
