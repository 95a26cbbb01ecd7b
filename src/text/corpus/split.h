// Which documents are for validation. It depends on the document's number in the whole corpus and the seed,
// never on threads or on where a run was interrupted.
#pragma once

#include <cstdint>

#include "core/base/random.h"

namespace twobw::corpus {

struct Split {
  double fraction = 0.01;  // of documents, chosen by a hash
  std::int64_t every = 0;  // above 0: every so many-th document instead
  std::uint64_t seed = 0;

  bool has_validation() const { return every > 0 || fraction > 0; }
  // The expected part of the corpus for validation.
  double part() const { return every > 0 ? 1.0 / static_cast<double>(every) : fraction; }

  bool is_validation(std::int64_t document) const {
    if (every > 0) return document % every == every - 1;
    const std::uint64_t bits = random_key(seed, hash_text("validation"), document) >> 11;
    return static_cast<double>(bits) * 0x1p-53 < fraction;
  }
};

}  // namespace twobw::corpus
