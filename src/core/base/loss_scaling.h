// The loss scale of training in fp16: what the gradient of the loss is multiplied with, so that small
// gradients do not vanish on their way back, and what gradients are divided by when they are applied. It is a
// power of two, so neither rounds.
//
// Without a flush a stage begins batch j when it has applied batch j-2, and with that knows whether all
// stages skipped it; of batch j-1 it does not know yet. So scale(j) is a function of which of the batches 0
// .. j-2 were skipped, on every stage and under every schedule the same:
//
//   scale(0) = scale(1)    the configuration's
//   scale(j+2)             batch j was skipped: half of scale(j), or scale(j+1) if that is lower already;
//                          else, with batch j as many were not skipped as `window` says: twice scale(j+1);
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
  std::int32_t clean = 0;   // batches not skipped since the last that was, or since it doubled
  std::int32_t window = 0;  // so many double it; 0: it stays what it is, which is 1
  std::int64_t judged = 0;  // batches of which it is known whether they were skipped

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

// Of a batch that may have begun: `judged` or the one after it.
float scale_of(const LossScaling& scaling, std::int64_t batch);

// At the first batch: as configured where train.precision is fp16, else 1 for good.
LossScaling loss_scaling_of(const TrainConfig& train);

}  // namespace twobw
