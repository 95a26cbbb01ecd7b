// Model families, and the sizes and heads that a configuration leaves to them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "planning/architecture/layer.h"

// All families. FAMILY needs `Model describe_FAMILY(const ModelConfig&)` in this folder, and its forwards,
// `forward_of_FAMILY`, in engine/models.
#define TWOBW_FAMILIES(FAMILY) FAMILY(gpt) FAMILY(llama) FAMILY(bert)

namespace twobw::architecture {

struct Family {
  std::string name;  // model.family
  std::function<Model(const ModelConfig&)> describe;
};

const std::vector<Family>& families();

// Registers a family of the caller, before the first use. Programs that train it call the function of the
// same name in engine/models/model.h instead.
void add_family(Family family);

// Describes the model of model.family. Throws InputError for an unknown family.
Model model_of(const ModelConfig& config);

// model.head, or its default for the family.
ModelHead head_of(const ModelConfig& config);

// True for heads with one output per sequence, not per token.
inline bool is_sequence_head(ModelHead head) {
  return head == ModelHead::Classification || head == ModelHead::Regression;
}

// Outputs of a sequence head.
inline std::int64_t outputs_of(const ModelConfig& config) {
  return config.head == ModelHead::Classification ? config.num_labels : 1;
}

// Rows of the table of learned positions; a sequence uses the first model.context.
inline std::int64_t positions_of(const ModelConfig& config) {
  return config.max_positions > 0 ? config.max_positions : config.context;
}

// Inner size of bert's MLP.
inline std::int64_t inner_size(const ModelConfig& config) {
  return config.hidden > 0 ? config.hidden : 4LL * config.width;
}

// Layers of bert without its head: the embedding and five per block.
inline int layers_below_head(const ModelConfig& config) {
  return 1 + 5 * config.layers;
}

inline constexpr int kNextSentences = 2;  // classes of bert's next-sentence head

}  // namespace twobw::architecture
