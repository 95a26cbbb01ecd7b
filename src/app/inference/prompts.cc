#include "app/inference/prompts.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string_view>

#include "core/base/config_values.h"
#include "core/base/error.h"
#include "core/base/text_file.h"
#include "core/base/untrusted_json.h"
#include "text/corpus/documents.h"

namespace twobw::inference {
namespace {

GivenPrompt prompt_in_json(const std::string& line, const std::string& place) {
  constexpr int kDeepest = 64;
  const UntrustedJson parsed = parse_untrusted(line, kDeepest);
  if (!parsed.problem.empty()) fail_input("'{}' {}", place, parsed.problem);
  const nlohmann::json& value = parsed.value;
  GivenPrompt prompt;
  if (value.is_object() && value.contains("prompt") && value["prompt"].is_string()) {
    prompt.text = value["prompt"].get<std::string>();
    if (prompt.text.empty()) fail_input("'{}' has an empty prompt; give some text", place);
    return prompt;
  }
  if (!value.is_object() || !value.contains("ids") || !value["ids"].is_array())
    fail_input("'{}' has neither a text 'prompt' nor a list 'ids'", place);
  for (const nlohmann::json& id : value["ids"]) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    if (!id.is_number_integer() || !(id >= 0 && id <= kMost))
      fail_input("'{}' has {} among its ids; they must be numbers of tokens", place, shown_name(id.dump()));
    prompt.ids.push_back(id.get<std::int64_t>());
  }
  if (prompt.ids.empty()) fail_input("'{}' has no ids; give at least one", place);
  return prompt;
}

}  // namespace

std::vector<GivenPrompt> read_prompts(const std::string& path) {
  std::istringstream lines(read_text("prompts", path));
  const bool json = corpus::format_of(path) == corpus::Format::kJsonl;
  std::vector<GivenPrompt> prompts;
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string place = fmt::format("{}:{}", path, number);
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) fail_input("'{}' is empty; every line must have a prompt", place);
    prompts.push_back(json ? prompt_in_json(line, place) : GivenPrompt{.text = line});
  }
  if (prompts.empty()) fail_input("'{}' has no prompts; give one a line", path);
  return prompts;
}

GivenPrompt parse_ids(const std::string& text) {
  std::string spaced = text;
  std::ranges::replace(spaced, ',', ' ');
  std::istringstream words(spaced);
  GivenPrompt prompt;
  for (std::string word; words >> word;) {
    const auto id = parse_number<std::int64_t>(word);
    if (!id || *id < 0) fail_input("--ids is '{}'; it must be numbers of tokens, such as 12,7,345", text);
    prompt.ids.push_back(*id);
  }
  if (prompt.ids.empty()) fail_input("--ids is '{}'; it must have at least one token", text);
  return prompt;
}

}  // namespace twobw::inference
