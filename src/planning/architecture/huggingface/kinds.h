// The kinds of models, each in a file of its own: what config.json says of it, and what it says to
// config.json.
#pragma once

#include <nlohmann/json.hpp>

#include "core/base/config.h"
#include "planning/architecture/huggingface/config_file.h"

namespace twobw::architecture::huggingface {

// The largest sizes that are read, so that what is computed of them fits 64 bits.
inline constexpr int kMostLayers = 1 << 12;
inline constexpr int kMostHeads = 1 << 12;  // and the size of one
inline constexpr int kMostWidth = 1 << 22;
inline constexpr int kMostVocab = 1 << 24;
inline constexpr int kMostContext = 1 << 24;
inline constexpr int kMostLabels = 1 << 20;

inline constexpr double kUsualDropout = 0.1;  // where config.json leaves a rate out

// Without the head.
ModelConfig read_gpt2(const ConfigFile& file);
ModelConfig read_llama(const ConfigFile& file);  // model_type llama, qwen2 or qwen3
ModelConfig read_bert(const ConfigFile& file);

// The model_type of a llama.
std::string llama_type(const ModelConfig& config);

// Without what all kinds have in common.
nlohmann::json write_gpt2(const ModelConfig& config);
nlohmann::json write_llama(const ModelConfig& config);
nlohmann::json write_bert(const ModelConfig& config);

// Of a head that tells of sequences: problem_type, and num_labels or id2label.
void read_labels(const ConfigFile& file, ModelConfig& config);
// The names of its labels in the order of their numbers; none: they are only LABEL_0 and so on, or a name is
// a number or there twice, so that a file's labels could not be told by them.
std::vector<std::string> label_names(const ConfigFile& file);
// `classes` names them; where it is empty, names are kept where there are as many.
void write_labels(const ModelConfig& config, const std::vector<std::string>& classes, nlohmann::json& json);

// rope_theta and rope_scaling, or rope_parameters.
void read_rope(const ConfigFile& file, ModelConfig& config, int most_positions);
void write_rope(const ModelConfig& config, nlohmann::json& json);
// Writes down the original context of a llama3 scaling where it is left to max_position_embeddings, which is
// about to change.
void keep_original_context(const ModelConfig& config, nlohmann::json& json);

}  // namespace twobw::architecture::huggingface
