// Where a model to evaluate or to generate with comes from: a run, or a folder in Hugging Face's layout.
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
  // One stage on one device in single precision, unless the settings say otherwise; without dropout.
  Config config;
  std::string folder;          // of the weights
  bool is_run = false;         // else a folder, whose config.json describes the model
  bool has_data = false;       // data.validation is that of the run, or set
  bool has_tokenizer = false;  // data.tokenizer is that of the model, and not what stands there by default
  // Evaluate only this many sequences, as training does. Set for a run unless the settings name other data.
  std::optional<std::int64_t> sample = {};
};

// `path` is a run (its newest model: that of its end, or of a later checkpoint), a checkpoint, or a folder as
// model.from takes it. `settings` are key=value, as for train; data=FILE is short for data.validation=FILE.
// Throws InputError.
ModelSource find_model(const std::string& path, const std::vector<std::string>& settings);

// Throws InputError where the folder's tensors are not the model's, or its head has none.
void check_weights(const ModelSource& source, const models::Model& model);

// The parameters of layers [first, last), each read alone; ties among them are one tensor. `compute` says
// where and in which type they are wanted.
std::vector<at::Tensor> read_weights(const ModelSource& source, const models::Model& model, int first,
                                     int last, const at::TensorOptions& compute);

// Null where the model has none.
std::unique_ptr<tokenizer::Tokenizer> load_tokenizer(const ModelSource& source);

}  // namespace twobw::inference
