#include "runtime/pass.h"

#include "base/random.h"

namespace twobw::runtime {

models::Pass training_pass(const Config& config, const data::Source& training, int replica, std::int64_t k) {
  const std::int64_t m = config.pipeline.microbatches;
  models::Pass pass{.training = true,
                    .loss_scale = 1.0 / static_cast<double>(m * config.pipeline.replicas),
                    .seed = config.train.seed,
                    .update = k / m,
                    .microbatch = replica * m + k % m};
  const data::Sample sample =
      training.random(random_key(pass.seed, hash_text("data"), pass.update, pass.microbatch),
                      config.pipeline.microbatch, config.model.context);
  pass.tokens = sample.tokens;
  pass.targets = sample.targets;
  return pass;
}

models::Pass validation_pass(const Config& config, const data::Source& validation, std::int64_t index) {
  const data::Sample sample = validation.sequential(index, config.pipeline.microbatch, config.model.context);
  return {.tokens = sample.tokens, .targets = sample.targets};
}

}  // namespace twobw::runtime
