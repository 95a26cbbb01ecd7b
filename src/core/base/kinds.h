// Named choices of the configuration: output heads, optimizers and precisions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace twobw {

// Output head, and with it the training objective.
enum class ModelHead {
  Auto,            // the family's language model: causal_lm, or masked_lm for bert
  CausalLm,        // the next token at every position
  MaskedLm,        // the tokens behind masks
  Classification,  // the class of a sequence
  Regression,      // a number for a sequence
};

std::string_view name(ModelHead head);
const std::vector<ModelHead>& all_heads();

enum class OptimizerRule { AdamW, Sgd, Lion, Lamb, Muon };

struct OptimizerKind {
  OptimizerRule rule;
  std::string_view name;
  int moments;  // buffers of state, as large as the weights
};

const std::vector<OptimizerKind>& optimizer_kinds();
std::vector<std::string> optimizer_names();
// `name` must be one of optimizer_names().
const OptimizerKind& optimizer_kind(std::string_view name);

// fp32, and fp16 or bf16 with fp32 master weights.
const std::vector<std::string>& precisions();

// Bytes of an activation, or of a weight in computation. Throws InputError for an unknown precision.
double bytes_per_element(const std::string& precision);

}  // namespace twobw
