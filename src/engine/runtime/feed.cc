#include "engine/runtime/feed.h"

#include <utility>

#include "engine/device/memory.h"

namespace twobw::runtime {

ReadAheadSetup read_ahead_setup(const Config& config, const MicrobatchSource& microbatches) {
  return {.name = "data",
          .ahead = microbatches.fields().empty() ? 0 : config.pipeline.prefetch,
          .timeout = config.pipeline.timeout};
}

Feed::Feed(const Config& config, const MicrobatchSource& microbatches, int replica)
    : microbatches_(microbatches),
      replica_(replica),
      ahead_(read_ahead_setup(config, microbatches), [this](std::int64_t microbatch) {
        read_[static_cast<std::size_t>(microbatch) % read_.size()] =
            microbatches_.training(replica_, microbatch);
      }) {
  read_.resize(static_cast<std::size_t>(ahead_.places()));
}

models::MicrobatchContext Feed::take(std::int64_t microbatch) {
  ahead_.await(microbatch);
  models::MicrobatchContext pass =
      std::exchange(read_[static_cast<std::size_t>(microbatch) % read_.size()], {});
  ahead_.release(microbatch);
  for (const data::Field field : architecture::kFields)
    pass.batch[field] = device::adopt(pass.batch[field], Term::Inputs);
  return pass;
}

}  // namespace twobw::runtime
