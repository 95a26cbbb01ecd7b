#include "runtime/pass.h"

#include <algorithm>

#include "base/random.h"

namespace twobw::runtime {
namespace {

using architecture::BatchFields;
using architecture::Field;

constexpr BatchFields kCounted = {Field::Targets, Field::Labels};

// A microbatch without a label adds nothing, whatever the scale.
double over(std::int64_t labels) {
  return 1.0 / static_cast<double>(std::max<std::int64_t>(labels, 1));
}

}  // namespace

Passes::Passes(const Config& config, const data::Source& training, const data::Source& validation,
               architecture::BatchFields fields)
    : config_(config), training_(training), validation_(validation), fields_(fields) {}

data::Batch Passes::training_batch(std::int64_t update, std::int64_t microbatch, BatchFields fields) const {
  const std::int64_t b = config_.pipeline.microbatch;
  const data::Draw draw{.key = random_key(config_.train.seed, hash_text("data"), update, microbatch),
                        .seed = config_.train.seed,
                        .first = update * config_.pipeline.batch() + microbatch * b};
  return training_.random(draw, config_.pipeline.microbatch, config_.model.context, fields);
}

data::Batch Passes::validation_batch(std::int64_t index, BatchFields fields) const {
  return validation_.sequential(index, config_.pipeline.microbatch, config_.model.context, fields);
}

double Passes::training_scale(std::int64_t update) {
  const std::int64_t batches = std::int64_t{config_.pipeline.microbatches} * config_.pipeline.replicas;
  if (training_.is_dense()) return over(batches * config_.pipeline.microbatch * config_.model.context);
  if (counted_ != update) {
    std::int64_t labels = 0;
    for (std::int64_t i = 0; i < batches; ++i)
      labels += data::count_labels(training_batch(update, i, kCounted));
    scale_ = over(labels);
    counted_ = update;
  }
  return scale_;
}

double Passes::validation_scale() {
  const std::int64_t batches = config_.train.eval_microbatches;
  if (validation_.is_dense()) return over(batches * config_.pipeline.microbatch * config_.model.context);
  if (!validation_scale_) {
    std::int64_t labels = 0;
    for (std::int64_t i = 0; i < batches; ++i) labels += data::count_labels(validation_batch(i, kCounted));
    validation_scale_ = over(labels);
  }
  return *validation_scale_;
}

models::Pass Passes::training(int replica, std::int64_t k) {
  const std::int64_t m = config_.pipeline.microbatches;
  models::Pass pass{
      .training = true, .seed = config_.train.seed, .update = k / m, .microbatch = replica * m + k % m};
  pass.batch = training_batch(pass.update, pass.microbatch, fields_);
  if (fields_.has(Field::LossScale))
    pass.batch[Field::LossScale] = at::full({1}, training_scale(pass.update), at::kDouble);
  return pass;
}

models::Pass Passes::validation(std::int64_t index) {
  models::Pass pass{.batch = validation_batch(index, fields_)};
  if (fields_.has(Field::LossScale))
    pass.batch[Field::LossScale] = at::full({1}, validation_scale(), at::kDouble);
  return pass;
}

}  // namespace twobw::runtime
