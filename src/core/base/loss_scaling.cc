#include "core/base/loss_scaling.h"

#include "core/base/config.h"
#include "core/base/error.h"

namespace twobw {

float scale_of(const LossScaling& scaling, std::int64_t batch) {
  TWOBW_ASSERT(batch == scaling.judged || batch == scaling.judged + 1,
               "batch {} begins when {} have been applied or skipped", batch, scaling.judged);
  return batch == scaling.judged ? scaling.current : scaling.next;
}

LossScaling loss_scaling_of(const TrainConfig& train) {
  if (train.precision != "fp16") return {};
  const auto start = static_cast<float>(train.loss_scale);
  return {.current = start, .next = start, .window = train.loss_scale_window};
}

}  // namespace twobw
