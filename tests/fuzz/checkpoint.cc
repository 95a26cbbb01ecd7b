// Files of a checkpoint: checkpoint.json, the header of a safetensors file, and the index of a model in two
// files.
#include "core/base/json.h"
#include "engine/checkpoint/formats/manifest.h"
#include "engine/checkpoint/formats/safetensors_header.h"
#include "tests/fuzz/target.h"

namespace twobw::fuzz {

// With a valid checksum, so that the rest of the file is reached.
void read_manifest_text(std::string_view input) {
  constexpr int kDeepest = 16;
  std::string text(input);
  if (find_json_problem(text, kDeepest).empty()) {
    Json value = Json::parse(text);
    if (value.is_object()) {
      value.erase("checksum");
      value["checksum"] = checkpoint::checksum(value.dump());
      text = value.dump();
    }
  }
  const checkpoint::Manifest manifest = checkpoint::parse_manifest(text, "checkpoint.json");
  checkpoint::parse_manifest(checkpoint::to_text(manifest), "checkpoint.json, written again");
}

void read_safetensors(std::string_view input) {
  for (const auto& [name, tensor] : checkpoint::read_header(bytes_of(input), "x.safetensors")) {
    if (tensor.begin > tensor.end || tensor.end > input.size()) fail("a tensor lies outside the file");
  }
}

void read_safetensors_index(std::string_view input) {
  static const std::map<std::string, std::set<std::string>> kFiles = {
      {"model-00001-of-00002.safetensors", {"embedding.weight", "layers.0.weight"}},
      {"model-00002-of-00002.safetensors", {"layers.1.weight", "head.weight"}}};
  const auto index = checkpoint::parse_index(input, "x.index.json");
  for (const auto& [tensor, file] : index) {
    if (file.find('/') != std::string::npos) fail("a file lies outside the folder");
  }
  checkpoint::check_index(index, kFiles, "x.index.json");
}

}  // namespace twobw::fuzz
