// What a model is worth on data: its loss, and figures that its head gives.
#pragma once

#include <cstdint>
#include <optional>

#include "app/inference/model_source.h"
#include "core/base/json.h"
#include "core/base/kinds.h"

namespace twobw::inference {

struct Evaluation {
  ModelHead head = ModelHead::CausalLm;
  std::int64_t sequences = 0;
  std::int64_t available = 0;  // sequences in the data; 0 if unknown or endless
  bool sampled = false;        // the data may have more
  std::int64_t counted = 0;    // targets, labels or values that there is a loss of
  double loss = 0;             // their mean, in nats; of regression the mean squared error
  // Of language models.
  std::optional<double> perplexity = {};
  std::optional<double> bits_per_byte =
      {};  // of causal_lm, where a tokenizer says how many bytes tokens have
  // Of classification.
  std::optional<double> accuracy = {}, f1 = {}, matthews = {};
  // Of regression; not a number where all values or all predictions are the same.
  std::optional<double> pearson = {}, spearman = {};
};

// Evaluates source.sample if it is set. Otherwise every sequence once, file by file, without weights; of
// endless data train.eval_microbatches microbatches. Throws InputError.
Evaluation evaluate(const ModelSource& source);

Json to_json(const Evaluation& evaluation);

// Lines to print.
std::string describe(const Evaluation& evaluation);

}  // namespace twobw::inference
