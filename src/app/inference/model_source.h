// The model to evaluate or to generate with: a run's, or a folder in Hugging Face's layout.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "engine/models/model.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::inference {

struct ModelSource {
  // By default one stage on one device in single precision; without dropout.
  Config config;
  std::string folder;          // with the weights
  bool is_run = false;         // else a folder with a config.json
  bool has_data = false;       // data.validation is the run's or set
  bool has_tokenizer = false;  // data.tokenizer is the model's, not the default
  // Sequences to evaluate, as in training. Set for a run unless the settings name other data.
  std::optional<std::int64_t> sample = {};
};

// `path`: a run (its newest model), a checkpoint, or a folder as in model.from. `settings`: key=value as for
// train; data=FILE means data.validation=FILE. Throws InputError.
ModelSource find_model(const std::string& path, const std::vector<std::string>& settings);

// Throws InputError if the folder's tensors do not fit the model, or its head is missing.
void check_weights(const ModelSource& source, const models::Model& model);

// The parameters of layers [first, last), on the device and in the type of `compute`; ties share a tensor.
std::vector<at::Tensor> read_weights(const ModelSource& source, const models::Model& model, int first,
                                     int last, const at::TensorOptions& compute);

// Null if the model has none.
std::unique_ptr<tokenizer::Tokenizer> load_tokenizer(const ModelSource& source);

}  // namespace twobw::inference
