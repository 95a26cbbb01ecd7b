#include "core/schedule/schedule_rule.h"

#include <algorithm>

#include "core/base/error.h"

namespace twobw::schedule {
namespace {

// Under 2bw the update of a batch may wait while later microbatches run.
bool delays_steps(const Spec& spec, std::int64_t batch) {
  return spec.shape.schedule == Kind::TwoBW && !is_synchronous(spec, batch);
}

// in_flight_bound() for microbatch k: that of flush in the first, synchronous updates.
int window(const Spec& spec, int stage, std::int64_t microbatch) {
  if (!is_synchronous(spec, microbatch / spec.shape.microbatches)) return in_flight_bound(spec, stage);
  Spec phase = spec;
  phase.shape.schedule = Kind::Flush;
  return in_flight_bound(phase, stage);
}

// Updates that stage r makes before it forwards microbatch k.
std::int64_t updates_before(const Spec& spec, int stage, std::int64_t microbatch) {
  if (runs_on_prediction(spec, microbatch)) return microbatch / spec.shape.microbatches - 1;
  return version_of(spec, stage, microbatch);
}

}  // namespace

Stream::Stream(const Spec& spec, int stage) : spec_(spec), stage_(stage), batches_(spec.updates) {
  validate(spec);
  begun_ = spec.first_batch;
  forwards_ = backwards_ = spec.first_batch * spec.shape.microbatches;
  // In a resumed run Restore stands in for the last step before it.
  steps_ = std::max<std::int64_t>(0, spec.first_batch - 1);
  written_ = first_generation(spec);
  if (spec.evaluate_every > 0) evaluated_ = steps_ - steps_ % spec.evaluate_every;
  TWOBW_ASSERT(stage >= 0 && stage < spec.shape.stages, "stage {} of {}", stage, spec.shape.stages);
}

std::optional<Instruction> Stream::next() {
  while (ready_.empty() && !ended_) refill();
  if (ready_.empty()) return std::nullopt;
  Instruction instruction = ready_.front();
  ready_.pop_front();
  return instruction;
}

void Stream::stop_before(std::int64_t batch) {
  TWOBW_ASSERT(batch >= begun_ - 1 && forwards_ <= batch * spec_.shape.microbatches,
               "stop before batch {}, but stage {} has forwarded {} microbatches", batch, stage_, forwards_);
  if (batch < batches_) batches_ = batch;
  to_save_.erase(to_save_.lower_bound(batch), to_save_.end());
}

void Stream::save_before(std::int64_t batch) {
  TWOBW_ASSERT(batch == begun_ - 1 && forwards_ == batch * spec_.shape.microbatches,
               "save before batch {}, but stage {} has forwarded {} microbatches", batch, stage_, forwards_);
  if (spec_.saves && batch > spec_.first_batch && batch < batches_) to_save_.insert(batch);
}

// The whole schedule: forward if the window and the versions allow it, else backward.
void Stream::refill() {
  if (may_forward()) {
    const std::int64_t batch = forwards_ / spec_.shape.microbatches;
    if (begun_ == batch) {
      emit_begin(batch);
    } else {
      emit_forward();
    }
  } else if (backwards_ < total()) {
    emit_backward();
  } else {
    while (steps_ < batches_) emit_step(steps_);
    // A stopped run has no weights for batch `batches_` to save.
    if (spec_.save_last && spec_.saves && batches_ == spec_.updates) emit_save(batches_ - 1);
    if (spec_.evaluate_every > 0 && batches_ > 0 && evaluated_ < batches_) emit_evaluate(batches_ - 1);
    ended_ = true;
  }
}

bool Stream::may_forward() const {
  if (forwards_ >= total()) return false;
  const std::int64_t needed_updates = updates_before(spec_, stage_, forwards_);
  return forwards_ - backwards_ < window(spec_, stage_, forwards_) &&
         backwards_ >= needed_updates * spec_.shape.microbatches;
}

void Stream::emit_begin(std::int64_t batch) {
  ready_.push_back({.op = Op::BeginBatch, .batch = batch});
  ++begun_;
  const bool due = spec_.save_every > 0 && batch % spec_.save_every == 0;
  if (due && spec_.saves && batch > spec_.first_batch) to_save_.insert(batch);
}

void Stream::emit_compute(Op op, std::int64_t microbatch) {
  const std::int64_t version = version_of(spec_, stage_, microbatch);
  const bool predicted = runs_on_prediction(spec_, microbatch);
  ready_.push_back({.op = op,
                    .batch = microbatch / spec_.shape.microbatches,
                    .microbatch = microbatch,
                    .version = version,
                    .slot = static_cast<int>(microbatch % in_flight_bound(spec_, stage_)),
                    .predicted = predicted,
                    .generation = generation_of(spec_, version, predicted)});
}

void Stream::emit_forward() {
  const std::int64_t k = forwards_++;
  const std::int64_t batch = k / spec_.shape.microbatches;
  const std::int64_t updates = updates_before(spec_, stage_, k);
  while (steps_ < updates) emit_step(steps_);
  // The step came before the batch began.
  if (to_save_.erase(steps_) > 0) {
    emit_save_compute(steps_ - 1);
    emit_save(steps_ - 1);
  }
  if (delays_steps(spec_, batch)) evaluate_up_to(updates);
  // The checkpoint has the prediction of a resumed run's first batch.
  const bool begins = k % spec_.shape.microbatches == 0 && batch > spec_.first_batch;
  if (begins && is_predicted(spec_, batch))
    ready_.push_back(
        {.op = Op::Predict, .batch = batch, .version = batch, .predicted = true, .generation = ++written_});
  if (stage_ > 0) ready_.push_back({.op = Op::RecvActivation, .batch = batch, .microbatch = k});
  emit_compute(Op::Forward, k);
  if (stage_ + 1 < spec_.shape.stages)
    ready_.push_back({.op = Op::SendActivation, .batch = batch, .microbatch = k});
}

void Stream::emit_backward() {
  const std::int64_t k = backwards_++;
  const std::int64_t batch = k / spec_.shape.microbatches;
  // First applies the gradient that the buffer still holds.
  while (steps_ <= batch - gradient_buffers(spec_, stage_)) emit_step(steps_);
  if (stage_ + 1 < spec_.shape.stages)
    ready_.push_back({.op = Op::RecvGradient, .batch = batch, .microbatch = k});
  emit_compute(Op::Backward, k);
  if (stage_ > 0) ready_.push_back({.op = Op::SendGradient, .batch = batch, .microbatch = k});

  const bool shares = spec_.shape.replicas > 1 && is_predicted(spec_, batch + 1) && batch + 1 < batches_;
  if (shares && backwards_ - batch * spec_.shape.microbatches == predicted_from(spec_, stage_))
    ready_.push_back({.op = Op::ReducePartial, .batch = batch});
  if (backwards_ % spec_.shape.microbatches == 0) {
    ready_.push_back({.op = Op::ReduceGradients, .batch = batch});
    if (!delays_steps(spec_, batch) || !steps_late(spec_, stage_)) emit_step(batch);
  }
}

void Stream::emit_step(std::int64_t batch) {
  evaluate_up_to(batch);
  // If all microbatches run on predictions, only the optimizer has the true weights.
  const bool writes = !is_predicted(spec_, batch + 1) || switches_to_true_weights(spec_);
  const bool saves = to_save_.erase(batch + 1) > 0;
  if (saves) emit_save_compute(batch);
  ready_.push_back({.op = batch < spec_.first_batch ? Op::Restore : Op::Step,
                    .batch = batch,
                    .version = batch + 1,
                    .generation = writes ? ++written_ : -1});
  ++steps_;
  if (saves) emit_save(batch);
  if (!delays_steps(spec_, batch)) evaluate_up_to(batch + 1);
}

// Before the step: the last stage may overwrite these older weights with W(batch+1).
void Stream::emit_save_compute(std::int64_t batch) {
  const std::vector<std::int64_t> older = older_generations(spec_, stage_, batch + 1);
  if (older.empty()) return;
  ready_.push_back({.op = Op::SaveCompute,
                    .batch = batch,
                    .version = batch + 1,
                    .predicted = is_predicted(spec_, batch + 1),
                    .generation = older.front()});
}

void Stream::emit_save(std::int64_t batch) {
  ready_.push_back({.op = Op::Save, .batch = batch, .version = batch + 1});
}

// Under 2bw all stages evaluate update t at the same place of the forward order, before the first forward on
// W(t+1): then every link carries all activations, evaluations included, in one order.
void Stream::evaluate_up_to(std::int64_t updates) {
  if (spec_.evaluate_every <= 0) return;
  const std::int64_t last_due = updates - updates % spec_.evaluate_every;
  if (last_due > evaluated_) emit_evaluate(last_due - 1);
}

void Stream::emit_evaluate(std::int64_t batch) {
  ready_.push_back({.op = Op::Evaluate, .batch = batch, .version = batch + 1});
  evaluated_ = batch + 1;
}

std::vector<Instruction> instructions(const Spec& spec, int stage) {
  std::vector<Instruction> list;
  Stream stream(spec, stage);
  while (auto instruction = stream.next()) list.push_back(*instruction);
  return list;
}

Lists all_instructions(const Spec& spec) {
  validate(spec);
  Lists lists;
  for (int stage = 0; stage < spec.shape.stages; ++stage) lists.push_back(instructions(spec, stage));
  return lists;
}

Lists of_all_replicas(const Spec& spec, const Lists& first) {
  Lists all = first;
  Lists other = first;
  for (auto& list : other) {
    std::erase_if(list, [](const Instruction& i) {
      return i.op == Op::Evaluate || i.op == Op::SaveCompute || i.op == Op::Save;
    });
  }
  for (int replica = 1; replica < spec.shape.replicas; ++replica)
    all.insert(all.end(), other.begin(), other.end());
  return all;
}

}  // namespace twobw::schedule
