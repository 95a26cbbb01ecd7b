// The table of configuration keys, for reading, checking, writing and documenting them; its limits; and the
// defaults of `twobw verify`.
#pragma once

#include <yaml-cpp/yaml.h>

#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/config.h"

namespace twobw {

// The end of "it must ..."; empty if the value is valid.
using Complaint = std::string;

struct Key {
  std::string path;     // pipeline.stages
  std::string allowed;  // the end of "it must be ..."
  std::string meaning;  // one sentence
  // Sets the value without a check of its range; complains of a wrong type.
  std::function<Complaint(const YAML::Node&, Config&)> read;
  std::function<std::string(const Config&)> write;  // as YAML, on one line
  // Complains of a value out of range. The keys above it in the table are already checked.
  std::function<Complaint(const Config&)> check;

  // The key with an additional check.
  Key with(std::function<Complaint(const Config&)> rule) &&;
};

// Value of pipeline.recompute: all, until the number of stages is known.
inline constexpr int kEveryStage = std::numeric_limits<int>::min();

struct Section {
  std::string name;  // empty: the keys outside any section
  std::string meaning;
};

const std::vector<Key>& schema();
const std::vector<Section>& sections();

// The section of a path ("" without one), and its last part.
std::string section_of(std::string_view path);
std::string name_of(std::string_view path);

const Key* find_key(std::string_view path);
bool is_section(std::string_view path);

// Advice on an unknown key: "did you mean 'pipeline.stages'?", the new name, or the known names.
std::string advice_for(std::string_view unknown);

// Largest sizes of a model and of its data; the rules below keep their products within 64 bits. Those of a
// pipeline are in core/base/pipeline_shape.h.
inline constexpr int kMostBlocks = 10'000;
inline constexpr int kWidest = 1'000'000;
inline constexpr int kWidestHidden = 10'000'000;
inline constexpr int kMostHeads = 100'000;
inline constexpr int kMostTokens = 10'000'000;  // of a vocabulary
inline constexpr int kLongest = 100'000'000;    // of a sequence, in tokens
inline constexpr int kMostReplicas = 1 << 14;   // of a plan; a run has fewer (kMostWorkers)

Complaint heads_fit(const Config& config);             // of model.head_size
Complaint split_is_countable(const Config& config);    // of pipeline.split
Complaint batch_is_countable(const Config& config);    // of pipeline.microbatches
Complaint tokens_are_countable(const Config& config);  // of train.updates

// Settings of `twobw verify` without a configuration file: a model that trains in seconds and uses every
// feature.
inline constexpr const char* kVerifyDefaults[] = {
    "model.layers=2",          "model.width=32",     "model.heads=4",
    "model.vocab=256",         "model.context=16",   "pipeline.microbatch=2",
    "pipeline.microbatches=4", "optimizer.warmup=2", "pipeline.sync_updates=2",
    "train.updates=8",         "train.eval_every=4", "train.eval_microbatches=2"};

// If the family has dropout.
inline constexpr double kVerifyDropout = 0.1;

}  // namespace twobw
