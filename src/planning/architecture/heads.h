// What the last layers of a family tell (core/base/kinds.h).
#pragma once

#include <cstdint>

#include "core/base/config.h"
#include "planning/architecture/batch.h"

namespace twobw::architecture {

// model.head, and what auto stands for.
ModelHead head_of(const ModelConfig& config);

// Throws InputError for the other kind of language model than the family is.
void check_head(const ModelConfig& config, ModelHead language);

// Whether it tells something of a whole sequence.
inline bool tells_of_sequences(ModelHead head) {
  return head == ModelHead::Classification || head == ModelHead::Regression;
}

// Of such a head: numbers that it gives for a sequence, and what its loss is made of.
inline std::int64_t outputs_of(const ModelConfig& config) {
  return config.head == ModelHead::Classification ? config.labels : 1;
}
inline BatchFields sequence_loss(const ModelConfig& config) {
  return config.head == ModelHead::Classification ? kSequenceLoss : kRegressionLoss;
}

}  // namespace twobw::architecture
