#include "engine/runtime/stage.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "engine/device/clock.h"
#include "engine/weights/layout.h"

namespace twobw::runtime {

using at::Tensor;

namespace {

// Blocks until all that the thread has queued is done.
void synchronize() {
  device::block_until(device::record_stream_event(), [] { return false; });
}

// Name in a checkpoint of weights that a batch computes on, oldest first.
std::string older_name(std::size_t index, std::size_t count, bool predicted) {
  return predicted ? "predicted" : fmt::format("before{}", count - index);
}

}  // namespace

StageState::StageState(const Config& config, const models::Model& model, const data::Source& training,
                       const data::Source& validation, const StageSetup& setup,
                       const at::TensorOptions& compute)
    : config(config),
      model(model),
      setup(setup),
      microbatches(config, training, validation,
                   architecture::taken_by(model.layers, setup.first_layer, setup.last_layer), setup.position),
      layout(model.layers, setup.first_layer, setup.last_layer),
      versions(layout, setup.versions, config, compute),
      gradients(layout, setup.gradient_buffers, compute) {
  // A prediction needs the sum of ties within the stage before the gradient is complete.
  const bool sums_ties =
      setup.predicts && setup.predict_ratio != 1 &&
      std::ranges::any_of(layout.ties(), [](const weights::Tie& tie) { return !tie.spans(); });
  if (!setup.sums_partials && !sums_ties) return;
  const device::PurposeScope purpose(Term::Gradients);
  partial = at::zeros_like(gradients.flat(0));
}

Tensor StageState::initial_weights() const {
  Tensor initial = at::zeros({layout.size()}, at::kFloat);
  weights::initialize(layout, initial, config);
  return initial;
}

Tensors StageState::run_layers(std::span<const Tensor> parameters, Tensors x,
                               const models::MicrobatchContext& pass) const {
  return models::run_layers(model, setup.first_layer, setup.last_layer, parameters, std::move(x), pass);
}

Stage::Stage(const Config& config, const models::Model& model, const data::Source& training,
             const data::Source& validation, const StageSetup& setup, const at::TensorOptions& compute,
             const device::MemoryPool& pool)
    : state_(config, model, training, validation, setup, compute),
      pool_(pool),
      compute_(state_.is_on_gpu() ? make_gpu_compute(state_) : make_cpu_compute(state_)) {
  if (!state_.is_on_gpu()) return;
  keep_tied_gradients();
  if (setup.saves) reserve_snapshot();
}

// Other GPUs read a copy after this one has moved on, so its memory must stay.
void Stage::keep_tied_gradients() {
  for (int tie = 0; tie < std::ssize(layout().ties()); ++tie) {
    auto& copies = tied_gradients_.emplace_back();
    if (!layout().ties()[tie].spans()) continue;
    for (int i = 0; i < 2; ++i) copies.push_back(at::empty_like(state_.gradients.of(0, tied_parameter(tie))));
    state_.footprint[Term::Transfer] += 2.0 * static_cast<double>(copies[0].nbytes());
  }
}

// Allocating pinned memory takes a second for a gigabyte. Freed blocks serve the next copies of any stage, so
// these are kept until this stage needs them.
void Stage::reserve_snapshot() {
  save_compute(std::array{state_.versions.newest()}, /*predicted=*/false);
  Snapshot first = snapshot(0);
  first.await(first);
  reserved_ = std::move(first);
}

Tensor Stage::host_copy(const Tensor& tensor) {
  reserved_.reset();
  return compute_->host_copy(tensor);
}

void Stage::complete(const Tensor& flat) const {
  if (state_.is_sharded()) state_.setup.gather(flat);
}

// With predictions the buffer of the next one is free, and has space for the true weights.
Tensor Stage::weights_to_evaluate() {
  if (evaluated_.defined()) return evaluated_;
  const Tensor& newest = state_.newest();
  const Tensor weights = state_.true_weights();
  if (!state_.is_sharded() && weights.scalar_type() == newest.scalar_type()) return weights;
  // Without predictions, and between a step that writes true weights and the next prediction, the newest
  // buffer has them.
  if (!state_.setup.predicts || state_.setup.switches_to_true_weights) return newest;
  const Tensor room = state_.versions.begin_write();
  state_.own(room).copy_(weights, /*non_blocking=*/true);
  complete(room);
  return room;
}

void Stage::begin_evaluation() {
  if (state_.is_sharded()) evaluated_ = weights_to_evaluate();
}

// On a GPU not captured, since it is rare. It waits for the queue, so that the memory of the tensors between
// stages can be reused.
Tensors Stage::evaluate(std::int64_t index, const Tensors& inputs) {
  at::NoGradGuard no_grad;
  models::MicrobatchContext pass = state_.microbatches.validation(index).to(state_.newest().device());
  pass.room = &state_.room;
  Tensors outputs =
      state_.run_layers(weights::parameter_views(layout(), weights_to_evaluate()), inputs, pass);
  synchronize();
  return outputs;
}

Tensor Stage::gather_weights(const Tensor& room) {
  if (!state_.optimizer.master.defined()) return state_.newest();
  state_.own(room).copy_(state_.true_weights(), /*non_blocking=*/true);
  complete(room);
  return room;
}

// The gradients are of no further use.
void Stage::finish() {
  const Tensor all =
      state_.is_sharded() ? gather_weights(state_.weights_in_gradients()) : state_.true_weights();
  synchronize();
  final_weights_ = all.to(at::kCPU, at::kFloat);
}

Tensor Stage::newest_weights() const {
  return final_weights_.defined() ? final_weights_ : state_.true_weights().to(at::kCPU, at::kFloat);
}

std::vector<std::uint64_t> Stage::layer_checksums() {
  if (!state_.is_sharded()) return weights::layer_checksums(layout(), newest_weights());
  const device::PurposeScope purpose(Term::Transfer);
  const Tensor room = at::zeros({layout().size()}, gradient(0).options());
  return weights::layer_checksums(layout(), gather_weights(room).to(at::kCPU));
}

void Stage::sum_local_ties(std::int64_t batch) {
  for (const weights::Tie& tie : layout().ties()) {
    if (!tie.spans()) state_.gradients.of(batch, tie.primary).add_(state_.gradients.of(batch, tie.copy));
  }
}

int Stage::tied_parameter(int tie) const {
  return std::max(layout().ties()[tie].primary, layout().ties()[tie].copy);
}

// A copy: the step clears the buffer without waiting for the other end.
Tensor Stage::tied_gradient(std::int64_t batch, int tie) {
  const Tensor& gradient = state_.gradients.of(batch, tied_parameter(tie));
  if (!state_.is_on_gpu()) {
    const device::PurposeScope purpose(Term::Transfer);
    return gradient.clone();
  }
  const Tensor& copy = tied_gradients_[tie][batch % 2];
  copy.copy_(gradient, /*non_blocking=*/true);
  return copy;
}

void Stage::add_tied_gradient(std::int64_t batch, int tie, const Tensor& other) {
  state_.gradients.of(batch, tied_parameter(tie)).add_(other);
}

std::vector<std::pair<std::int64_t, std::int64_t>> Stage::tied_ranges() const {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for (const weights::Tie& tie : layout().ties()) {
    if (tie.primary < 0) continue;
    const weights::Parameter& parameter = layout().parameters()[tie.primary];
    ranges.emplace_back(parameter.gradient_offset, parameter.count);
  }
  return ranges;
}

const Tensor& Stage::copy_partial(std::int64_t batch) {
  state_.partial.copy_(gradient(batch), /*non_blocking=*/true);
  return state_.partial;
}

void Stage::sum_partial_ties() {
  for (const weights::Tie& tie : layout().ties()) {
    if (tie.spans()) continue;
    const weights::Parameter &to = layout().parameters()[tie.primary],
                             &from = layout().parameters()[tie.copy];
    state_.partial.narrow(0, to.gradient_offset, to.count)
        .add_(state_.partial.narrow(0, from.gradient_offset, from.count));
  }
}

// The caller publishes the target.
optim::Prediction Stage::prediction_for(const NextBatch& next) {
  if (state_.partial.defined()) {
    if (!state_.setup.sums_partials) copy_partial(next.batch - 1);
    sum_partial_ties();
  }
  return {.learning_rate = next.learning_rate,
          .ratio = state_.setup.predict_ratio,
          .gradient = state_.partial.defined() ? state_.partial : gradient(next.batch - 1),
          .target = state_.versions.begin_write()};
}

PendingStep Stage::step(std::int64_t update, double learning_rate, std::span<const transport::Norms> norms,
                        bool writes, const NextBatch* next) {
  const Tensor target = writes ? state_.versions.begin_write() : Tensor();
  const optim::Prediction prediction = next ? prediction_for(*next) : optim::Prediction();
  std::shared_ptr<optim::PredictionMiss> miss;
  if (std::exchange(watches_, false))
    miss = std::make_shared<optim::PredictionMiss>(state_.own(state_.newest()), state_.true_weights());
  PendingStep pending = compute_->step({.update = update,
                                        .learning_rate = learning_rate,
                                        .norms = norms,
                                        .source = state_.newest(),
                                        .target = target,
                                        .next = next ? &prediction : nullptr,
                                        .miss = miss.get()});
  if (writes || next) {
    complete(next ? prediction.target : target);
    state_.versions.publish();
  }
  if (!miss) return pending;
  return [pending = std::move(pending), miss = std::move(miss)] {
    StepResult result = pending();
    result.miss = {.squared_step = miss->squared_step(), .squared_miss = miss->squared_miss()};
    return result;
  };
}

void Stage::predict(const NextBatch& next) {
  const optim::Prediction prediction = prediction_for(next);
  compute_->predict(prediction);
  complete(prediction.target);
  state_.versions.publish();
}

void Stage::save_compute(std::span<const std::int64_t> older_generations, bool predicted) {
  copied_.clear();
  for (std::size_t i = 0; i < older_generations.size(); ++i)
    copied_.emplace_back(older_name(i, older_generations.size(), predicted),
                         host_copy(state_.own(state_.versions.flat(older_generations[i]))));
}

Snapshot Stage::snapshot(std::int64_t update) {
  Snapshot snapshot{.update = update,
                    .layout = layout(),
                    .part = state_.shard().value_or(weights::Range{.count = layout().size()}),
                    .buffers = std::exchange(copied_, {})};
  snapshot.buffers.emplace_back("weights", host_copy(state_.true_weights()));
  for (const auto& [name, tensor] : state_.optimizer.named()) {
    if (name != "master") snapshot.buffers.emplace_back(name, host_copy(tensor));
  }
  compute_->finish_snapshot(snapshot);
  return snapshot;
}

void Stage::restore(const Restored& from, std::int64_t first_generation,
                    std::span<const std::int64_t> older_generations, bool predicted) {
  at::NoGradGuard no_grad;
  state_.versions.begin_after(first_generation);
  for (std::size_t i = 0; i < older_generations.size(); ++i)
    state_.versions.restore(older_generations[i],
                            from.flat(older_name(i, older_generations.size(), predicted), layout()));
  restored_ = from.flat("weights", layout());
  for (const auto& [name, tensor] : state_.optimizer.named()) {
    if (name == "master") {
      tensor.copy_(state_.own(restored_));
    } else if (from.has(name)) {
      tensor.copy_(state_.own(from.flat(name, layout())));
    }
  }
  compute_->restore(from.counters);
}

void Stage::restore_weights(bool writes) {
  const Tensor weights = std::exchange(restored_, Tensor());
  if (!writes) return;
  state_.versions.begin_write().copy_(weights);
  state_.versions.publish();
}

}  // namespace twobw::runtime
