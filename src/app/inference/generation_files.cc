#include "app/inference/generation_files.h"

#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "app/inference/generation.h"
#include "core/base/config_values.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text_file.h"

namespace twobw::inference {
namespace {

using nlohmann::json;

// An object; empty: there is no such file.
json read_file(const std::string& path) {
  std::error_code error;  // reading says which
  if (std::filesystem::status(path, error).type() == std::filesystem::file_type::not_found)
    return json::object();
  constexpr int kDeepest = 64;
  UntrustedJson file = parse_untrusted(read_model_text("configuration", path, kLargestConfig), kDeepest);
  if (!file.problem.empty()) fail_input("'{}' {}", path, file.problem);
  return file.value.is_object() ? std::move(file.value) : json::object();
}

// What is there and not null.
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

// Each with what asks for nothing; besides that, null does.
std::vector<std::string> not_done_in(const json& file) {
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
  // Of the prompt and what is generated; in transformers max_new_tokens counts more, and 20 says nothing.
  const json* const length = find(file, "max_length");
  if (length != nullptr && *length != 20 && find(file, "max_new_tokens") == nullptr)
    keys.emplace_back("max_length");
  return keys;
}

}  // namespace

GenerationFiles read_generation_files(const ModelSource& source, const tokenizer::Tokenizer* tokenizer) {
  constexpr double kUnlimited = std::numeric_limits<double>::max();
  const std::string path = source.folder + "/generation_config.json";
  const json file = read_file(path);
  GenerationFiles files{.ends = ends_in(file), .not_done = not_done_in(file)};
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
