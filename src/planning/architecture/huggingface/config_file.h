// config.json of a Hugging Face model. Missing and null keys have their defaults; unsupported values are
// rejected with key, value and the allowed values.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/config.h"

namespace twobw::architecture::huggingface {

class ConfigFile {
 public:
  // Throws InputError if it is unreadable or not a JSON object.
  explicit ConfigFile(const std::string& path);
  // From its text; `path` names it in messages.
  ConfigFile(std::string_view text, const std::string& path);

  const std::string& path() const { return path_; }
  bool has(const std::string& key) const { return find(key) != nullptr; }
  // True if the key is null explicitly, for keys with another default.
  bool is_null(const std::string& key) const;
  std::size_t size() const { return value_.size(); }  // keys

  // A key without a default is required.
  int whole(const std::string& key, int most, std::optional<int> fallback = {}) const;
  double number(const std::string& key, std::optional<double> fallback = {}) const;
  bool flag(const std::string& key, bool fallback) const;
  std::string word(const std::string& key, const std::string& fallback) const;
  std::vector<std::string> words(const std::string& key) const;  // empty: no such key
  // Nested object, named by its path in messages; nothing: no such key.
  std::optional<ConfigFile> part(const std::string& key) const;

  // Refuse all values but one, which is also the default.
  void expect(const std::string& key, bool only) const;
  void expect(const std::string& key, double only) const;
  void expect_word(const std::string& key, const std::vector<std::string>& allowed) const;
  // Refuses `divisor`, the value or default of the key, unless it divides `size`.
  void expect_divides(const std::string& key, int divisor, const std::string& multiple, int size) const;
  void expect_none(const std::string& key, std::string_view why) const;

  // Throws "'PATH' has KEY = VALUE; it must MUST".
  [[noreturn]] void refuse(const std::string& key, std::string_view must) const;

 private:
  ConfigFile(nlohmann::json value, std::string path, std::string prefix);
  const nlohmann::json* find(const std::string& key) const;  // null: missing, or null
  [[noreturn]] void miss(const std::string& key) const;

  nlohmann::json value_;
  std::string path_;
  std::string prefix_;  // "rope_scaling."
};

// Model types of transformers (kinds.cc): config.json to a ModelConfig and back. Also the labels of sequence
// heads and the rotary embedding, which several types share.

// Largest accepted sizes, so that products of them fit 64 bits.
inline constexpr int kMostLayers = 1 << 12;
inline constexpr int kMostHeads = 1 << 12;  // also the largest head size
inline constexpr int kMostWidth = 1 << 22;
inline constexpr int kMostVocab = 1 << 24;
inline constexpr int kMostContext = 1 << 24;
inline constexpr int kMostLabels = 1 << 20;

inline constexpr double kUsualDropout = 0.1;  // default of transformers

// All but the head.
ModelConfig read_gpt2(const ConfigFile& file);
ModelConfig read_llama(const ConfigFile& file);  // model_type llama, qwen2 or qwen3
ModelConfig read_bert(const ConfigFile& file);

// model_type of the family llama.
std::string llama_type(const ModelConfig& config);

// All but the keys that the types share.
nlohmann::json write_gpt2(const ModelConfig& config);
nlohmann::json write_llama(const ModelConfig& config);
nlohmann::json write_bert(const ModelConfig& config);

// Labels of a sequence head: problem_type, and num_labels or id2label. One label is a number (regression),
// several are classes.
void read_labels(const ConfigFile& file, ModelConfig& config);
// Names of the labels by number; empty if they are defaults (LABEL_0, ...), numbers or not unique.
std::vector<std::string> label_names(const ConfigFile& file);
// Writes `classes` as names of the labels, or keeps existing names if their number fits.
void write_labels(const ModelConfig& config, const std::vector<std::string>& classes, nlohmann::json& json);

// Rotary embedding. Older files have rope_theta and rope_scaling, whose kind is `type` or `rope_type`; newer
// ones have rope_parameters.
void read_rope(const ConfigFile& file, ModelConfig& config, int most_positions);
void write_rope(const ModelConfig& config, nlohmann::json& json);
// Writes the original context of llama3 scaling if it defaults to max_position_embeddings, before that
// changes.
void keep_original_context(const ModelConfig& config, nlohmann::json& json);

}  // namespace twobw::architecture::huggingface
