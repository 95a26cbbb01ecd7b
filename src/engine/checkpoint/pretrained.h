// The weights in a model's folder, which is in Hugging Face's layout, by our parameters.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "core/base/config.h"
#include "engine/checkpoint/tensor_folder.h"
#include "planning/architecture/huggingface/names.h"
#include "planning/architecture/layer.h"

namespace twobw::checkpoint {

// Tensors by which the head of a model differs from what the folder has.
struct HeadChange {
  // Of the model's head, and not in the folder, or there with another shape, which is told besides.
  std::vector<std::string> initialized;
  std::vector<std::string> left_out;  // of heads in the folder, and not in the model
};

class Pretrained {
 public:
  // Maps the files of a model that was saved with its head. Throws InputError where they cannot be read.
  Pretrained(const ModelConfig& model, const std::string& folder);
  // In model.from, which may have another head, or none.
  explicit Pretrained(const ModelConfig& model);

  // Throws InputError that lists all tensors that are missing, not expected, of another shape or of a type
  // that is not read. Only a head that the folder's config.json does not promise may be missing.
  HeadChange check(const architecture::Model& model) const;

  // Whether the folder has the parameter; a model that passed the check lacks it in a new head alone.
  bool has(const architecture::Parameter& parameter) const;

  // A parameter that the folder lacks, as transformers begins it: with the config's initializer_range.
  architecture::Parameter with_default_init(architecture::Parameter parameter) const;

  // Reads the tensors of one parameter alone into `target`, float32 of its shape. They must be there.
  void read(const architecture::Parameter& parameter, const at::Tensor& target) const;

 private:
  std::string stored_name(const std::string& name) const;
  void check_tied() const;
  bool is_new(const architecture::Parameter& parameter, const architecture::huggingface::Piece& piece) const;

  ModelConfig model_;
  TensorFolder folder_;
  bool bare_ = false;  // names lack the prefix: the model was saved without its head
  bool promises_head_ = true;
  double initializer_range_ = 0;  // of a model.from
};

}  // namespace twobw::checkpoint
