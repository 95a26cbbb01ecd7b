#include "engine/runtime/microbatches.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/base/error.h"
#include "core/base/gpu_name.h"
#include "core/base/random.h"
#include "engine/device/memory.h"
#include "engine/transport/wait_hub.h"
#include "planning/host/cores.h"

namespace twobw::runtime {
namespace {

using architecture::BatchFields;
using architecture::Field;

// A microbatch without labels adds nothing at any scale.
double over(std::int64_t labels) {
  return 1.0 / static_cast<double>(std::max<std::int64_t>(labels, 1));
}

}  // namespace

MicrobatchSource::MicrobatchSource(const Config& config, const data::Source& training,
                                   const data::Source& validation, architecture::BatchFields fields,
                                   const DataPosition& position)
    : config_(config),
      training_(training),
      validation_(validation),
      evaluated_(data::validation_portions(validation, config)),
      fields_(fields),
      position_(position),
      // Graphs are of one shape.
      keeps_padding_(!config.devices.empty() && names_gpu(config.devices.front())),
      loss_{.fields = fields & architecture::kCounted},
      labels_{.fields = {}} {
  if (!fields.has(Field::LabelScale)) return;
  labels_.fields = {Field::Labels};
  loss_.fields = loss_.fields.without(labels_.fields);
}

template <typename Read>
data::Batch MicrobatchSource::without_padding(const data::Source& source, Read read) const {
  if (keeps_padding_ || fields_.empty() || !source.varies()) return read(fields_);
  data::Batch batch = read(fields_ | BatchFields{Field::Lengths});
  data::cut_padding(batch);
  if (!fields_.has(Field::Lengths)) batch[Field::Lengths] = at::Tensor();
  return batch;
}

data::Batch MicrobatchSource::training_batch(std::int64_t update, std::int64_t microbatch,
                                             BatchFields fields) const {
  const std::int64_t b = config_.pipeline.microbatch;
  const data::Draw draw{
      .key = random_key(config_.train.seed, hash_text("data"), update, microbatch),
      .seed = config_.train.seed,
      .first = position_.sequences + (update - position_.update) * config_.pipeline.batch() + microbatch * b};
  return training_.random(draw, config_.pipeline.microbatch, config_.model.context, fields);
}

data::Batch MicrobatchSource::validation_batch(std::int64_t index, BatchFields fields) const {
  const data::Portion portion = evaluated_[index];
  return validation_.sequential(portion.index, portion.sequences, config_.model.context, fields);
}

double MicrobatchSource::training_scale(std::int64_t update, Mean& mean) const {
  const std::int64_t batches = std::int64_t{config_.pipeline.microbatches} * config_.pipeline.replicas;
  if (training_.is_dense())
    return over(mean.fields.count(batches * config_.pipeline.microbatch, config_.model.context));
  if (mean.counted != update) {
    std::int64_t labels = 0;
    for (std::int64_t i = 0; i < batches; ++i)
      labels += data::count_labels(training_batch(update, i, mean.fields));
    mean.scale = over(labels);
    mean.counted = update;
  }
  return mean.scale;
}

double MicrobatchSource::validation_scale(Mean& mean) const {
  if (validation_.is_dense()) return over(mean.fields.count(evaluated_.sequences(), config_.model.context));
  if (!mean.validation_scale) {
    std::int64_t labels = 0;
    for (std::int64_t i = 0; i < evaluated_.size(); ++i)
      labels += data::count_labels(validation_batch(i, mean.fields));
    mean.validation_scale = over(labels);
  }
  return *mean.validation_scale;
}

models::MicrobatchContext MicrobatchSource::keys(int replica, std::int64_t k) const {
  const std::int64_t m = config_.pipeline.microbatches;
  return {.training = true, .seed = config_.train.seed, .update = k / m, .microbatch = replica * m + k % m};
}

models::MicrobatchContext MicrobatchSource::training(int replica, std::int64_t k) {
  models::MicrobatchContext pass = keys(replica, k);
  pass.batch = without_padding(
      training_, [&](BatchFields fields) { return training_batch(pass.update, pass.microbatch, fields); });
  for (const auto& [field, mean] : {std::pair{Field::LossScale, &loss_}, {Field::LabelScale, &labels_}}) {
    if (fields_.has(field))
      pass.batch[field] = at::full({1}, training_scale(pass.update, *mean), at::kDouble);
  }
  return pass;
}

models::MicrobatchContext MicrobatchSource::validation(std::int64_t index) {
  models::MicrobatchContext pass{.batch = without_padding(validation_, [&](BatchFields fields) {
                                   return validation_batch(index, fields);
                                 })};
  for (const auto& [field, mean] : {std::pair{Field::LossScale, &loss_}, {Field::LabelScale, &labels_}}) {
    if (fields_.has(field)) pass.batch[field] = at::full({1}, validation_scale(*mean), at::kDouble);
  }
  return pass;
}

ReadAhead::ReadAhead(ReadAheadSetup setup, Fill fill)
    : setup_(std::move(setup)), places_(std::max(1, setup_.ahead + setup_.held)), fill_(std::move(fill)) {
  if (setup_.ahead > 0) thread_ = std::thread([this] { run(); });
}

ReadAhead::~ReadAhead() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ReadAhead::run() {
  device::unbind_thread(setup_.name);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stops_ || (next_ < end_ && !failure_); });
    if (stops_) return;
    fill_next(lock);
    changed_.notify_all();
  }
}

// Without the lock while it fills. If another sequence has begun by then, it was for nothing.
void ReadAhead::fill_next(std::unique_lock<std::mutex>& lock) {
  const std::int64_t number = next_, sequence = sequence_;
  std::exception_ptr failure;
  lock.unlock();
  try {
    fill_(number);
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  if (sequence != sequence_) return;
  failure_ = failure;
  if (!failure) ++next_;
}

void ReadAhead::begin_at(std::int64_t number) {
  ++sequence_;
  first_ = next_ = number;
  end_ = number + places_;
  failure_ = nullptr;
  changed_.notify_all();
}

void ReadAhead::await(std::int64_t number) {
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  if (number != wanted_) begin_at(number);
  wanted_ = number + 1;
  TWOBW_ASSERT(failure_ || number < end_, "{} is asked for, and {} places from {} on are not released",
               number, places_, first_);
  const auto ready = [&] { return next_ > number || failure_; };
  if (thread_.joinable()) {
    changed_.wait_for(lock, std::chrono::duration<double>(setup_.timeout), ready);
  } else {
    while (!ready()) fill_next(lock);
  }
  waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (next_ > number) return;
  if (failure_) std::rethrow_exception(failure_);
  throw transport::WaitTimeout(fmt::format("no data of microbatch {} within {:g} s", number, setup_.timeout));
}

void ReadAhead::release(std::int64_t number) {
  {
    const std::lock_guard lock(mutex_);
    if (sequence_ == 0) return;  // nothing has been asked for
    first_ = std::max(first_, number + 1);
    end_ = first_ + places_;
  }
  changed_.notify_all();
}

ReadAheadSetup read_ahead_setup(const Config& config, const MicrobatchSource& microbatches, int held) {
  return {.name = "data",
          .ahead = microbatches.fields().empty() ? 0 : config.pipeline.prefetch,
          .held = held,
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
