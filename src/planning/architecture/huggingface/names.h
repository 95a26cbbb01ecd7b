// Our parameters by the names that transformers has for them. A parameter of ours is one tensor of theirs, or
// several one below the other, each as it is stored or transposed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/config.h"
#include "planning/architecture/layer.h"

namespace twobw::architecture::huggingface {

struct Piece {
  std::string name;                 // "transformer.h.0.attn.c_attn.weight"
  std::vector<std::int64_t> shape;  // as it is stored
  bool transposed = false;          // its rows are our columns

  std::int64_t rows() const { return transposed ? shape[1] : shape[0]; }  // of ours
};

// Whether transformers has models of this family.
bool has_family(const ModelConfig& config);

// Of a parameter that is tied: of the one it is tied to. In a family that transformers does not have: itself.
std::vector<Piece> pieces_of(const ModelConfig& config, const Parameter& parameter);

// "transformer.", "model." or "bert.", or nothing: what all names but those of heads begin with, unless the
// file holds the model without its head.
std::string_view prefix_of(const ModelConfig& config);

// What older files have in place of a name of theirs: LayerNorm.gamma is LayerNorm.weight. Empty: nothing.
std::string former_name(std::string_view name);

// Two names of one tensor, where the output is tied.
struct TiedNames {
  std::string output, source;  // the source is the one that our parameters have
};
std::vector<TiedNames> tied_names(const ModelConfig& config);  // none: it is not tied

// Whether the parameter belongs to the head that config.head asks for, and not to the model below it.
bool is_of_head(const ModelConfig& config, const Parameter& parameter);

// Whether a name of theirs is of a head, any that models of the family may have.
bool is_head_name(const ModelConfig& config, std::string_view name);

// Whether a file may hold it besides: tables that follow from the configuration, and the output where it is
// tied.
bool is_spare(const ModelConfig& config, std::string_view name);

}  // namespace twobw::architecture::huggingface
