// The microbatches of an evaluation: every sequence once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/config.h"
#include "engine/data/tokens.h"

namespace twobw::data {

// As Source::sequential takes it.
struct Portion {
  std::int64_t index = 0;
  int sequences = 0;
};

// Full microbatches; the sequences that remain come one by one.
class Portions {
 public:
  // The first `most` sequences, or all if the source has fewer.
  Portions(const Source& source, std::int64_t most, int microbatch)
      : sequences_(source.count() > 0 ? std::min(source.count(), most) : most), microbatch_(microbatch) {}

  std::int64_t sequences() const { return sequences_; }
  std::int64_t size() const { return sequences_ / microbatch_ + sequences_ % microbatch_; }
  Portion operator[](std::int64_t i) const {
    const std::int64_t full = sequences_ / microbatch_;
    return i < full ? Portion{i, microbatch_} : Portion{full * microbatch_ + i - full, 1};
  }

 private:
  std::int64_t sequences_;
  int microbatch_;
};

// The sequences that training evaluates.
inline Portions validation_portions(const Source& validation, const Config& config) {
  const int b = config.pipeline.microbatch;
  return {validation, std::int64_t{config.train.eval_microbatches} * b, b};
}

}  // namespace twobw::data
