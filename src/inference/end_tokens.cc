// Which tokens end a text, by the files of a model.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/text_file.h"
#include "base/untrusted_json.h"
#include "inference/generation.h"

namespace twobw::inference {
namespace {

// Ids under eos_token_id of a file; nothing: it says none.
std::optional<std::vector<std::int64_t>> ends_in(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) return std::nullopt;
  constexpr int kDeepest = 64;
  const UntrustedJson file = parse_untrusted(read_text("configuration", path), kDeepest);
  if (!file.problem.empty()) fail_input("'{}' {}", path, file.problem);
  if (!file.value.is_object() || !file.value.contains("eos_token_id")) return std::nullopt;
  const nlohmann::json& given = file.value["eos_token_id"];
  std::vector<std::int64_t> ids;
  for (const nlohmann::json& id : given.is_array() ? given : nlohmann::json::array({given})) {
    if (id.is_number_integer()) ids.push_back(id.get<std::int64_t>());
  }
  return ids.empty() ? std::nullopt : std::optional(ids);
}

}  // namespace

std::vector<std::int64_t> end_tokens(const ModelSource& source, const tokenizer::Tokenizer* tokenizer) {
  for (const char* const file : {"/generation_config.json", "/config.json"}) {
    if (const auto ids = ends_in(source.folder + file)) return *ids;
  }
  if (tokenizer == nullptr || !tokenizer->special().eos) return {};
  return {*tokenizer->special().eos};
}

}  // namespace twobw::inference
