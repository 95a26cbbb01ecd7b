// The rotary embedding in config.json. Older files have rope_theta beside rope_scaling, whose kind is `type`
// or `rope_type`; newer ones have both in rope_parameters.
#include "planning/architecture/huggingface/kinds.h"

namespace twobw::architecture::huggingface {
namespace {

constexpr double kUsualTheta = 10000;
constexpr const char* kOriginalContext = "original_max_position_embeddings";

void read_scaling(const ConfigFile& file, const ConfigFile& rope, const std::string& spelling,
                  ModelConfig& config, int most_positions) {
  config.rope_scaling = rope.word(spelling, "");
  config.rope_factor = rope.number("factor");
  if (config.rope_scaling == "linear") return;
  // Dynamic scaling begins where the positions end.
  config.rope_original_context = most_positions;
  if (config.rope_scaling == "dynamic") return;
  config.rope_low_freq_factor = rope.number("low_freq_factor");
  config.rope_high_freq_factor = rope.number("high_freq_factor");
  // Beside the rotary embedding's keys it comes first, as transformers has it.
  const ConfigFile& place = file.has(kOriginalContext) ? file : rope;
  config.rope_original_context = place.whole(kOriginalContext, kMostContext, most_positions);
}

}  // namespace

void read_rope(const ConfigFile& file, ModelConfig& config, int most_positions) {
  file.expect("partial_rotary_factor", 1.0);
  config.rope_theta = file.number("rope_theta", kUsualTheta);
  std::optional<ConfigFile> rope = file.part("rope_scaling");
  if (!rope || rope->size() == 0) rope = file.part("rope_parameters");
  if (!rope) return;
  rope->expect_none("full_attention", "all layers have one rotary embedding");
  rope->expect("partial_rotary_factor", 1.0);
  config.rope_theta = rope->number("rope_theta", config.rope_theta);
  const std::string spelling = rope->has("rope_type") ? "rope_type" : "type";
  rope->expect_word(spelling, {"default", "linear", "dynamic", "llama3"});
  if (rope->word(spelling, "default") != "default")
    read_scaling(file, *rope, spelling, config, most_positions);
}

void keep_original_context(const ModelConfig& config, nlohmann::json& json) {
  const auto tells = [](const nlohmann::json& object) {
    return object.contains(kOriginalContext) && !object[kOriginalContext].is_null();
  };
  if (config.rope_scaling != "llama3" || tells(json)) return;
  for (const char* const place : {"rope_scaling", "rope_parameters"}) {
    if (!json.contains(place) || !json[place].is_object() || json[place].empty()) continue;
    if (!tells(json[place])) json[place][kOriginalContext] = config.rope_original_context;
    return;
  }
}

void write_rope(const ModelConfig& config, nlohmann::json& json) {
  json["rope_theta"] = config.rope_theta;
  json["rope_scaling"] = nullptr;
  if (config.rope_scaling == "none") return;
  // Both spellings, for all versions of transformers.
  nlohmann::json rope = {
      {"rope_type", config.rope_scaling}, {"type", config.rope_scaling}, {"factor", config.rope_factor}};
  if (config.rope_scaling == "dynamic") json["max_position_embeddings"] = config.rope_original_context;
  if (config.rope_scaling == "llama3") {
    rope["low_freq_factor"] = config.rope_low_freq_factor;
    rope["high_freq_factor"] = config.rope_high_freq_factor;
    rope["original_max_position_embeddings"] = config.rope_original_context;
  }
  json["rope_scaling"] = rope;
}

}  // namespace twobw::architecture::huggingface
