// Our parameters in Hugging Face's layout: translation, and weights from a model folder.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "engine/checkpoint/safetensors.h"
#include "planning/architecture/huggingface/names.h"
#include "planning/architecture/layer.h"

namespace twobw::checkpoint {

// The stored tensors of a parameter, as views of `ours`.
std::vector<NamedTensor> to_stored(const ModelConfig& model, const architecture::Parameter& parameter,
                                   const at::Tensor& ours);

// Fills `target`, which has the parameter's shape. `find` returns a stored tensor of any number format.
void from_stored(const ModelConfig& model, const architecture::Parameter& parameter,
                 const std::function<at::Tensor(const std::string& name)>& find, const at::Tensor& target);

// Differences between the head of a model and the folder's.
struct HeadChange {
  std::vector<std::string> initialized;  // missing in the folder, or listed with its other shape there
  std::vector<std::string> left_out;     // only in the folder
};

class Pretrained {
 public:
  // A model that was saved with its head. Throws InputError if its files cannot be read.
  Pretrained(const ModelConfig& model, const std::string& folder);
  // The model in model.from, which may have another head or none.
  explicit Pretrained(const ModelConfig& model);

  // Throws InputError listing all tensors that are missing, unexpected, misshaped or of an unsupported type.
  // Only a head that the folder's config.json does not promise may be missing.
  HeadChange check(const architecture::Model& model) const;

  // False only for parameters of a new head, once the model has passed the check.
  bool has(const architecture::Parameter& parameter) const;

  // The parameter with transformers' initialization for missing tensors: the config's initializer_range.
  architecture::Parameter with_default_init(architecture::Parameter parameter) const;

  // Reads one parameter, which must exist, into `target`: float32, of its shape.
  void read(const architecture::Parameter& parameter, const at::Tensor& target) const;

 private:
  std::string stored_name(const std::string& name) const;
  void check_tied() const;
  bool is_new(const architecture::Parameter& parameter, const architecture::huggingface::Piece& piece) const;

  ModelConfig model_;
  TensorFolder folder_;
  bool bare_ = false;  // names lack the prefix: the model was saved without its head
  bool promises_head_ = true;
  double initializer_range_ = 0;  // for model.from
};

}  // namespace twobw::checkpoint
