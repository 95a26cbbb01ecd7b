// Prompts and generation settings from files.
#include "app/inference/generation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/config_values.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text_file.h"
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

using nlohmann::json;

// A JSON object; empty for a missing file.
json read_file(const std::string& path) {
  std::error_code error;  // reading says which
  if (std::filesystem::status(path, error).type() == std::filesystem::file_type::not_found)
    return json::object();
  constexpr int kDeepest = 64;
  UntrustedJson file = parse_untrusted(read_model_text("configuration", path, kLargestConfig), kDeepest);
  if (!file.problem.empty()) fail_input("'{}' {}", path, file.problem);
  return file.value.is_object() ? std::move(file.value) : json::object();
}

// Null for missing and null values.
const json* find(const json& file, const char* key) {
  const auto found = file.find(key);
  return found == file.end() || found->is_null() ? nullptr : &*found;
}

std::vector<std::int64_t> ends_in(const json& file) {
  const json* const given = find(file, "eos_token_id");
  std::vector<std::int64_t> ids;
  if (given == nullptr) return ids;
  for (const json& id : given->is_array() ? *given : json::array({*given})) {
    if (id.is_number_integer()) ids.push_back(id.get<std::int64_t>());
  }
  return ids;
}

std::optional<double> number(const json& file, const std::string& path, const char* key, double above,
                             double most, const char* must) {
  const json* const given = find(file, key);
  if (given == nullptr) return std::nullopt;
  const double value = given->is_number() ? given->get<double>() : std::nan("");
  if (!(value > above && value <= most))
    fail_input("'{}' has {} {}; it must be {}", path, key, shown_name(given->dump()), must);
  return value;
}

std::optional<int> whole_number(const json& file, const std::string& path, const char* key, int least,
                                int most) {
  const json* const given = find(file, key);
  if (given == nullptr) return std::nullopt;
  const bool fits = given->is_number_unsigned() && *given >= least && *given <= most;
  if (fits) return given->get<int>();
  const bool is_open = most == std::numeric_limits<int>::max();
  fail_input("'{}' has {} {}; it must be a whole number {}", path, key, shown_name(given->dump()),
             is_open ? fmt::format("of at least {}", least) : fmt::format("from {} to {}", least, most));
}

// Keys whose value is neither null nor the one that has no effect.
std::vector<std::string> unsupported_in(const json& file) {
  static const std::array<std::pair<const char*, json>, 29> kKeys = {{
      {"num_beams", 1},
      {"num_beam_groups", 1},
      {"penalty_alpha", 0},
      {"min_length", 0},
      {"min_new_tokens", 0},
      {"min_p", 0},
      {"typical_p", 1.0},
      {"epsilon_cutoff", 0.0},
      {"eta_cutoff", 0.0},
      {"diversity_penalty", 0.0},
      {"encoder_repetition_penalty", 1.0},
      {"length_penalty", 1.0},
      {"no_repeat_ngram_size", 0},
      {"encoder_no_repeat_ngram_size", 0},
      {"guidance_scale", 1.0},
      {"bad_words_ids", json::array()},
      {"suppress_tokens", json::array()},
      {"begin_suppress_tokens", json::array()},
      {"forced_bos_token_id", nullptr},
      {"forced_eos_token_id", nullptr},
      {"exponential_decay_length_penalty", nullptr},
      {"sequence_bias", nullptr},
      {"watermarking_config", nullptr},
      {"stop_strings", nullptr},
      {"token_healing", false},
      {"dola_layers", nullptr},
      {"force_words_ids", nullptr},
      {"constraints", nullptr},
      {"num_return_sequences", 1},
  }};
  std::vector<std::string> keys;
  for (const auto& [key, nothing] : kKeys) {
    const json* const given = find(file, key);
    if (given != nullptr && *given != nothing) keys.emplace_back(key);
  }
  // In transformers max_new_tokens overrides max_length, and 20 is its default.
  const json* const length = find(file, "max_length");
  if (length != nullptr && *length != 20 && find(file, "max_new_tokens") == nullptr)
    keys.emplace_back("max_length");
  return keys;
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

GenerationFiles read_generation_files(const ModelSource& source, const tokenizer::Tokenizer* tokenizer) {
  constexpr double kUnlimited = std::numeric_limits<double>::max();
  const std::string path = source.folder + "/generation_config.json";
  const json file = read_file(path);
  GenerationFiles files{.ends = ends_in(file), .unsupported = unsupported_in(file)};
  files.repetition_penalty = number(file, path, "repetition_penalty", 0, kUnlimited, "a number above 0");
  files.tokens = whole_number(file, path, "max_new_tokens", 1, kMostTokens);
  const json* const samples = find(file, "do_sample");
  if (samples != nullptr && *samples == true) {
    files.temperature = number(file, path, "temperature", 0, kUnlimited, "a number above 0");
    files.top_p = number(file, path, "top_p", 0, 1, "above 0 and at most 1");
    files.top_k = whole_number(file, path, "top_k", 0, std::numeric_limits<int>::max());
  }
  if (files.ends.empty()) files.ends = ends_in(read_file(source.folder + "/config.json"));
  if (files.ends.empty() && tokenizer != nullptr && tokenizer->special().eos)
    files.ends = {*tokenizer->special().eos};
  return files;
}

}  // namespace twobw::inference
