// The loss scale of fp16 training: multiplies the gradient of the loss, so that small gradients do not
// underflow in the backward, and divides gradients when they are applied. A power of two, so neither rounds.
//
// Without a flush a stage that begins batch j has applied batch j-2 and knows whether all stages skipped it;
// it does not know about batch j-1 yet. Therefore scale(j) is a function of the skips among batches 0 .. j-2,
// the same on every stage and under every schedule:
//
//   scale(0) = scale(1)    of the configuration
//   scale(j+2)             if batch j was skipped: half of scale(j), or scale(j+1) if that is lower;
//                          if batch j is the `window`-th in a row without a skip: twice scale(j+1);
//                          else scale(j+1)
#pragma once

#include <cstdint>

#include "core/base/attributes.h"

namespace twobw {

struct TrainConfig;

struct LossScaling {
  static constexpr float kLeast = 1, kMost = 1 << 24;

  float current = 1;        // of batch `judged`
  float next = 1;           // of the batch after it
  std::int32_t clean = 0;   // batches since the last skip or doubling
  std::int32_t window = 0;  // clean batches that double it; 0: constant 1
  std::int64_t judged = 0;  // batches known to be applied or skipped

  bool operator==(const LossScaling&) const = default;
};

// Batch `judged` was skipped, or applied.
TWOBW_HOST_DEVICE void judge(LossScaling& scaling, bool skipped) {
  float coming = scaling.next;
  if (scaling.window > 0 && skipped) {
    if (coming > scaling.current / 2) coming = scaling.current / 2;
    if (coming < LossScaling::kLeast) coming = LossScaling::kLeast;
    scaling.clean = 0;
  } else if (scaling.window > 0 && ++scaling.clean >= scaling.window) {
    if (coming < LossScaling::kMost) coming *= 2;
    scaling.clean = 0;
  }
  scaling.current = scaling.next;
  scaling.next = coming;
  ++scaling.judged;
}

// The scale of a batch that may have begun: `judged` or the next.
float scale_of(const LossScaling& scaling, std::int64_t batch);

// The state at the first batch: as configured if train.precision is fp16, else constant 1.
LossScaling loss_scaling_of(const TrainConfig& train);

}  // namespace twobw
