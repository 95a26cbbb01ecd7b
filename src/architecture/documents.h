// Sequences that hold several documents, each of which is computed as if it were alone
// (model.reset_documents).
#pragma once

#include "architecture/batch.h"
#include "base/config.h"

namespace twobw::architecture {

// What embeddings by position and attention read of a batch, to tell documents apart.
inline BatchFields document_fields(const ModelConfig& config) {
  return config.reset_documents ? BatchFields{Field::Positions} : BatchFields{};
}

// Throws InputError where they cannot be told apart.
void check_documents(const ModelConfig& config);

}  // namespace twobw::architecture
