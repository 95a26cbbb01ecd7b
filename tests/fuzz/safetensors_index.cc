// The index of a model in several files, of which there are two.
#include "engine/checkpoint/formats/safetensors_header.h"
#include "tests/fuzz/target.h"

namespace twobw::fuzz {

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
