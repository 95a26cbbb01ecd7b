// Sequences that hold several documents, each of which is computed as if it were alone
// (model.reset_documents).
#pragma once

#include "core/base/config.h"
#include "planning/architecture/batch.h"

namespace twobw::architecture {

// What embeddings by position and attention read of a batch, to tell documents apart.
inline BatchFields document_fields(const ModelConfig& config) {
  return config.reset_documents ? BatchFields{Field::Positions} : BatchFields{};
}

// What attention needs for a while to tell the documents of a sequence apart, on GPUs: a mask, and which of
// its elements hide.
inline double document_mask_bytes(double context, double element) {
  return context * context * (element + 1);
}

// Throws InputError where they cannot be told apart.
void check_documents(const ModelConfig& config);

}  // namespace twobw::architecture
