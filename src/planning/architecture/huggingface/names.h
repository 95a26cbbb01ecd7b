// Parameter names of transformers. A parameter here is one tensor there, or several stacked ones, possibly
// transposed.
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
  std::vector<std::int64_t> shape;  // as stored
  bool transposed = false;          // stored rows are columns here

  std::int64_t rows() const { return transposed ? shape[1] : shape[0]; }  // of the parameter here
};

// True if transformers has this family.
bool has_family(const ModelConfig& config);

// Tensors of a parameter, for a tied one those of its source. In other families: the parameter itself.
std::vector<Piece> pieces_of(const ModelConfig& config, const Parameter& parameter);

// Prefix of all names except those of heads ("transformer.", "model.", "bert."). Files of a model without its
// head omit it.
std::string_view prefix_of(const ModelConfig& config);

// Name in older files: LayerNorm.gamma for LayerNorm.weight. Empty: no other name.
std::string former_name(std::string_view name);

// Names of one tensor, if the output is tied.
struct TiedNames {
  std::string output, source;  // parameters here have the name `source`
};
std::vector<TiedNames> tied_names(const ModelConfig& config);  // empty: not tied

// True if the parameter belongs to the head of config.head.
bool is_of_head(const ModelConfig& config, const Parameter& parameter);

// True for a name in transformers of any head of the family.
bool is_head_name(const ModelConfig& config, std::string_view name);

// True for redundant tensors of a file: tables that follow from the configuration, and a tied output.
bool is_spare(const ModelConfig& config, std::string_view name);

}  // namespace twobw::architecture::huggingface
