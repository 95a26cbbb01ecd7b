// Model types of transformers: config.json to a ModelConfig and back. Also the labels of sequence heads and
// the rotary embedding, which several types share.
#pragma once

#include <nlohmann/json.hpp>

#include "core/base/config.h"
#include "planning/architecture/huggingface/config_file.h"

namespace twobw::architecture::huggingface {

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
