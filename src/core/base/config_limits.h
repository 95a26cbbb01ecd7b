// Largest sizes of a model and of its data, and the rules that keep their products within 64 bits. Those of a
// pipeline are in core/base/pipeline_shape.h.
#pragma once

#include "core/base/config_schema.h"

namespace twobw {

inline constexpr int kMostBlocks = 10'000;
inline constexpr int kWidest = 1'000'000;
inline constexpr int kWidestHidden = 10'000'000;
inline constexpr int kMostHeads = 100'000;
inline constexpr int kMostTokens = 10'000'000;  // of a vocabulary
inline constexpr int kLongest = 100'000'000;    // of a sequence, in tokens
inline constexpr int kMostReplicas = 1 << 14;   // that a plan may have; a run has fewer

Complaint heads_fit(const Config& config);             // of model.head_size
Complaint split_is_countable(const Config& config);    // of pipeline.split
Complaint batch_is_countable(const Config& config);    // of pipeline.microbatches
Complaint tokens_are_countable(const Config& config);  // of train.updates

}  // namespace twobw
