#include "engine/runtime/worker.h"

#include <cmath>

#include "core/base/error.h"
#include "core/base/text.h"
#include "engine/device/clock.h"
#include "engine/optim/optimizer.h"

namespace twobw::runtime {

using schedule::Instruction;
using schedule::Op;
using transport::Tag;

namespace {

// Updates from one look at predictions to the next, which is two passes.
constexpr std::int64_t kWatchEvery = 20;

}  // namespace

Worker::Worker(const Setup& run, const PipelineOptions& options, StageSetup setup, Ports ports,
               const Groups& groups, telemetry::Board& board, const Observer& observer)
    : run_(run),
      options_(options),
      config_(run.config),
      spec_(run.spec),
      setup_(std::move(setup)),
      ports_(std::move(ports)),
      groups_(groups),
      board_(board),
      observer_(observer) {}

double Worker::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Worker::run(std::chrono::steady_clock::time_point start) {
  start_ = start;
  thread_ = std::this_thread::get_id();
  const std::string name = spec_.shape.replicas == 1
                               ? fmt::format("stage {}", setup_.stage)
                               : fmt::format("{} stage {}", setup_.replica, setup_.stage);
  if (groups_.gather != nullptr) {
    setup_.gather = [this](const at::Tensor& whole) {
      timed_wait([&] {
        groups_.gather->run(setup_.replica, whole);
        return true;
      });
    };
  }
  device::PoolScope scope(pool_);
  binding_ = std::make_unique<device::DeviceBinding>(name, device(), start);
  stage_ = std::make_unique<Stage>(config_, run_.model, *run_.training, *run_.validation, setup_,
                                   binding_->compute(config_.train.precision), pool_);
  stream_ = std::make_unique<schedule::Stream>(schedule::of_replica(spec_, setup_.replica), setup_.stage);
  if (options_.restored) restore();
  last_update_ = now();
  while (const auto instruction = stream_->next()) {
    board_.begin(index(), *instruction);
    device::Timestamp begin = options_.record_events ? binding_->clock().now() : device::Timestamp();
    execute(*instruction);
    if (config_.pipeline.memory_limit > 0) check_memory();
    if (options_.record_events) timed_.push_back({*instruction, {std::move(begin), binding_->clock().now()}});
  }
  while (!steps_.empty()) report_step();
  stage_->finish();
  for (const Timed& timed : timed_) {
    events_.push_back({setup_.stage, timed.instruction, binding_->clock().seconds(timed.span.begin),
                       binding_->clock().seconds(timed.span.end), setup_.replica});
  }
  board_.finish(index(), "finished");
}

void Worker::execute(const Instruction& i) {
  switch (i.op) {
    case Op::BeginBatch:
      return begin_batch(i.batch);
    case Op::RecvActivation:
      inputs_ = timed_wait([&] {
        return ports_.activations_in->receive({Tag::Kind::Activation, i.microbatch});
      });
      return;
    case Op::Forward:
      outputs_ = stage_->forward(i.microbatch, i.slot, i.generation, std::exchange(inputs_, {}));
      return;
    case Op::SendActivation:
      return ports_.activations_out->send({Tag::Kind::Activation, i.microbatch}, std::move(outputs_));
    case Op::RecvGradient:
      gradients_of_outputs_ = timed_wait([&] {
        return ports_.gradients_in->receive({Tag::Kind::Gradient, i.microbatch});
      });
      return;
    case Op::Backward:
      gradients_of_inputs_ =
          stage_->backward(i.microbatch, i.slot, i.generation, std::exchange(gradients_of_outputs_, {}));
      return;
    case Op::SendGradient:
      return ports_.gradients_out->send({Tag::Kind::Gradient, i.microbatch}, std::move(gradients_of_inputs_));
    case Op::ReducePartial:
      return reduce_partial(i.batch);
    case Op::ReduceGradients:
      return reduce_gradients(i.batch);
    case Op::Step:
      return step(i);
    case Op::Predict:
      return predict(i);
    case Op::SaveCompute:
      return run_besides(saves_, [&] {
        stage_->save_compute(schedule::older_generations(spec_, setup_.stage, i.version), i.predicted);
      });
    case Op::Save:
      return run_besides(saves_, [&] { save(i.version); });
    case Op::Restore:
      return stage_->restore_weights(i.generation >= 0);
    case Op::Evaluate:
      return run_besides(evaluations_, [&] { evaluate(i.batch); });
  }
}

void Worker::save(std::int64_t update) {
  Snapshot snapshot = stage_->snapshot(update);
  snapshot.stage = setup_.stage;
  if (observer_.on_snapshot) observer_.on_snapshot(std::move(snapshot));
}

void Worker::restore() {
  const std::int64_t batch = spec_.first_batch;
  stage_->restore(*options_.restored, schedule::first_generation(spec_),
                  schedule::older_generations(spec_, setup_.stage, batch),
                  schedule::is_predicted(spec_, batch));
}

void Worker::begin_batch(std::int64_t batch) {
  const bool begins =
      index() == 0 ? groups_.gate.decide(batch) : timed_wait([&] { return groups_.gate.await(batch); });
  if (!begins) {
    stream_->stop_before(batch);
  } else if (groups_.gate.saves_before(batch)) {
    stream_->save_before(batch);
  }
}

double Worker::learning_rate(std::int64_t update) const {
  return optim::learning_rate(config_.optimizer, config_.train.updates, update);
}

// The prediction that follows a step is made with it, in one pass.
void Worker::step(const Instruction& i) {
  const std::vector<transport::Norms> norms = collect_norms(i.batch);
  const double rate = learning_rate(i.batch);
  // All replicas have the same weights, so one looks; or each at its part.
  const bool was_predicted = predicted_ == i.batch + 1, looks = setup_.replica == 0 || spec_.shape.shards();
  if (was_predicted && looks && predicted_ % kWatchEvery == 0) stage_->watch();
  const Instruction* upcoming = stream_->upcoming();
  std::optional<NextBatch> next;
  if (upcoming != nullptr && upcoming->op == Op::Predict) next = next_batch(upcoming->batch);
  PendingStep result = stage_->step(i.batch, rate, norms, i.generation >= 0, next ? &*next : nullptr);
  Step made{
      .report = {.replica = setup_.replica, .stage = setup_.stage, .update = i.batch, .learning_rate = rate},
      .result = std::move(result),
      .done = binding_->clock().now(),
      .waits = std::exchange(waits_, {}),
      .evaluations = std::exchange(evaluations_, {}),
      .saves = std::exchange(saves_, {})};
  const double data_waited = stage_->data_waited();
  made.report.data_wait = data_waited - std::exchange(data_waited_, data_waited);
  if (options_.checksums) made.report.checksums = stage_->layer_checksums();
  steps_.push_back(std::move(made));
  while (static_cast<int>(steps_.size()) > stage_->steps_ahead()) report_step();
}

void Worker::predict(const Instruction& i) {
  if (i.batch > predicted_) stage_->predict(next_batch(i.batch));
}

NextBatch Worker::next_batch(std::int64_t batch) {
  if (spec_.shape.replicas > 1) await_partial(batch - 1);
  predicted_ = batch;
  return {.batch = batch, .learning_rate = learning_rate(batch - 1)};
}

void Worker::report_step() {
  Step made = std::move(steps_.front());
  steps_.pop_front();
  telemetry::StageUpdate& report = made.report;
  const StepResult result = made.result();
  report.gradient_norm = result.gradient_norm;
  report.skipped = result.skipped;
  report.loss_scale = result.loss_scale;
  report.miss = result.miss;
  report.peak = stage_->peak();
  binding_->clock().await(made.done);
  report.time = binding_->clock().seconds(made.done);
  report.evaluating = seconds_of(made.evaluations);
  report.saving = seconds_of(made.saves);
  report.elapsed = report.time - std::exchange(last_update_, report.time) - report.evaluating - report.saving;
  report.waiting = seconds_of(made.waits);
  // A GPU executes queued work while its thread waits.
  if (!device().gpu) report.waiting += report.data_wait;
  if (result.loss) report.loss = *result.loss;
  observer_.on_update(std::move(report));
}

// Requires that the spans have passed.
double Worker::seconds_of(const std::vector<Span>& spans) const {
  double sum = 0;
  for (const Span& span : spans)
    sum += binding_->clock().seconds(span.end) - binding_->clock().seconds(span.begin);
  return sum;
}

void Worker::check_memory() {
  const double limit = config_.pipeline.memory_limit * (1 << 30);
  const Footprint before = std::exchange(last_peak_, stage_->peak());
  if (last_peak_.total() <= limit) return;
  int grown = 0;
  const auto growth = [&](int term) { return last_peak_.bytes[term] - before.bytes[term]; };
  for (int term = 1; term < kTerms; ++term) {
    if (growth(term) > growth(grown)) grown = term;
  }
  fail_run("its tensors take {}, more than the {} of pipeline.memory_limit, now that {} have grown to {}",
           format_bytes(last_peak_.total()), format_bytes(limit), name(static_cast<Term>(grown)),
           format_bytes(last_peak_.bytes[grown]));
}

void Worker::evaluate(std::int64_t update) {
  stage_->begin_evaluation();
  if (setup_.replica == 0) run_validation(update);
  stage_->end_evaluation();
}

void Worker::await_taken() {
  timed_wait([&] { return ports_.gradients_in->receive({Tag::Kind::Taken, untaken_.front()}); });
  untaken_.pop_front();
}

void Worker::run_validation(std::int64_t update) {
  const bool first = setup_.stage == 0, last = is_last_stage();
  const std::int64_t count = stage_->validation_microbatches();
  double sum = 0;
  for (std::int64_t index = 0; index < count; ++index) {
    const Tag tag{Tag::Kind::Evaluation, update * count + index};
    if (std::ssize(untaken_) == transport::kEvaluatedAhead) await_taken();
    Tensors inputs;
    if (!first) {
      inputs = timed_wait([&] { return ports_.activations_in->receive(tag); });
      ports_.gradients_out->send({Tag::Kind::Taken, tag.index}, {});
    }
    Tensors outputs = stage_->evaluate(index, std::move(inputs));
    if (last) {
      sum += outputs.front().item<double>();
    } else {
      ports_.activations_out->send(tag, std::move(outputs));
      untaken_.push_back(tag.index);
    }
  }
  if (last) observer_.on_evaluation({.update = update, .loss = sum});
}

}  // namespace twobw::runtime
