// What a model is trained to tell.
#pragma once

#include <string_view>
#include <vector>

namespace twobw {

enum class ModelHead {
  Auto,            // the family's language model: causal_lm, or masked_lm where the family is bert
  CausalLm,        // of every token the next one
  MaskedLm,        // the tokens behind masks
  Classification,  // the class of a sequence
  Regression,      // a number for a sequence
};

std::string_view name(ModelHead head);
const std::vector<ModelHead>& all_heads();

}  // namespace twobw
