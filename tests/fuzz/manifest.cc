// checkpoint.json: as it is, and with a checksum that fits, so that what stands behind it is reached.
#include "engine/checkpoint/formats/manifest.h"

#include "core/base/json.h"
#include "tests/fuzz/target.h"

namespace twobw::fuzz {

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

}  // namespace twobw::fuzz
