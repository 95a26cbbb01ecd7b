#include "engine/runtime/stage.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/weights/checksum.h"

namespace twobw::runtime {

using at::Tensor;

Stage::Stage(const Config& config, const models::Model& model, const data::Source& training,
             const data::Source& validation, const StageSetup& setup, const at::TensorOptions& compute)
    : config_(config),
      model_(model),
      setup_(setup),
      passes_(config, training, validation,
              architecture::taken_by(model.layers, setup.first_layer, setup.last_layer), setup.position),
      layout_(model.layers, setup.first_layer, setup.last_layer),
      versions_(layout_, setup.versions, config, compute),
      gradients_(layout_, setup.gradient_buffers, compute) {
  // Ties within the stage: what a prediction is made from is summed apart while the gradient still grows.
  const bool sums_ties =
      setup.predicts && setup.predict_ratio != 1 &&
      std::ranges::any_of(layout_.ties(), [](const weights::Tie& tie) { return !tie.spans(); });
  if (!setup.sums_partly && !sums_ties) return;
  const device::PurposeScope purpose(Term::Gradients);
  partial_ = at::zeros_like(gradients_.flat(0));
}

Tensors Stage::run_layers(std::span<const Tensor> parameters, Tensors x, const models::Pass& pass) const {
  return models::run_layers(model_, setup_.first_layer, setup_.last_layer, parameters, std::move(x), pass);
}

Tensor Stage::initial_weights() const {
  Tensor initial = at::zeros({layout_.size()}, at::kFloat);
  weights::initialize(layout_, initial, config_);
  return initial;
}

// With predictions the buffer that the next one goes to is free, and has room for the true weights.
Tensor Stage::weights_to_evaluate() {
  if (evaluated_.defined()) return evaluated_;
  const Tensor& newest = versions_.flat(versions_.newest());
  const Tensor weights = device_weights();
  if (!is_sharded() && weights.scalar_type() == newest.scalar_type()) return weights;
  // Without predictions they are computed with; else they are the newest between the step and the next
  // prediction, where they are computed with at all.
  if (!setup_.predicts || setup_.settles) return newest;
  const Tensor room = versions_.begin_write();
  own(room).copy_(weights, /*non_blocking=*/true);
  complete(room);
  return room;
}

void Stage::begin_evaluation() {
  if (is_sharded()) evaluated_ = weights_to_evaluate();
}

Tensor Stage::gather_weights(const Tensor& room) {
  if (!optimizer_state().master.defined()) return versions_.flat(versions_.newest());
  own(room).copy_(device_weights(), /*non_blocking=*/true);
  complete(room);
  return room;
}

void Stage::sum_local_ties(std::int64_t batch) {
  for (const weights::Tie& tie : layout_.ties()) {
    if (tie.primary >= 0 && tie.copy >= 0)
      gradients_.of(batch, tie.primary).add_(gradients_.of(batch, tie.copy));
  }
}

const Tensor& Stage::copy_partial(std::int64_t batch) {
  partial_.copy_(gradients_.flat(batch), /*non_blocking=*/true);
  return partial_;
}

optim::Prediction Stage::prediction_for(const NextBatch& next) {
  // Ties within a stage are summed where the gradient is complete, and here.
  if (partial_.defined()) {
    if (!setup_.sums_partly) copy_partial(next.batch - 1);
    for (const weights::Tie& tie : layout_.ties()) {
      if (tie.primary < 0 || tie.copy < 0) continue;
      const weights::Parameter &to = layout_.parameters()[tie.primary],
                               &from = layout_.parameters()[tie.copy];
      partial_.narrow(0, to.gradient_offset, to.count)
          .add_(partial_.narrow(0, from.gradient_offset, from.count));
    }
  }
  return {.learning_rate = next.learning_rate,
          .ratio = setup_.predict_ratio,
          .gradient = partial_.defined() ? partial_ : gradients_.flat(next.batch - 1),
          .target = versions_.begin_write()};
}

void Stage::begin_watch(std::int64_t update, const Tensor& true_weights) {
  if (watches_) misses_.try_emplace(update, own(versions_.flat(versions_.newest())), true_weights);
}

void Stage::end_watch(std::int64_t update, const Tensor& true_weights) {
  if (std::exchange(watches_, false)) misses_.at(update).finish(true_weights);
}

std::optional<telemetry::PredictionMiss> Stage::take_miss(std::int64_t update) {
  const auto found = misses_.extract(update);
  if (!found) return std::nullopt;
  return telemetry::PredictionMiss{.squared_step = found.mapped().squared_step(),
                                   .squared_miss = found.mapped().squared_miss()};
}

int Stage::tied_parameter(int tie) const {
  return std::max(layout_.ties()[tie].primary, layout_.ties()[tie].copy);
}

void Stage::add_tied_gradient(std::int64_t batch, int tie, const Tensor& other) {
  gradients_.of(batch, tied_parameter(tie)).add_(other);
}

std::vector<std::pair<std::int64_t, std::int64_t>> Stage::tied_ranges() const {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for (const weights::Tie& tie : layout_.ties()) {
    if (tie.primary < 0) continue;
    const weights::Parameter& parameter = layout_.parameters()[tie.primary];
    ranges.emplace_back(parameter.gradient_offset, parameter.count);
  }
  return ranges;
}

std::string Stage::older_name(std::size_t index, std::size_t count, bool predicted) {
  return predicted ? "predicted" : fmt::format("before{}", count - index);
}

void Stage::save_compute(std::span<const std::int64_t> older_generations, bool predicted) {
  copied_.clear();
  for (std::size_t i = 0; i < older_generations.size(); ++i)
    copied_.emplace_back(older_name(i, older_generations.size(), predicted),
                         host_copy(own(versions_.flat(older_generations[i]))));
}

Snapshot Stage::snapshot(std::int64_t update) {
  Snapshot snapshot{.update = update,
                    .layout = layout_,
                    .part = shard().value_or(weights::Range{.count = layout_.size()}),
                    .buffers = std::exchange(copied_, {})};
  snapshot.buffers.emplace_back("weights", host_copy(device_weights()));
  for (const auto& [name, tensor] : optimizer_state().named()) {
    if (name != "master") snapshot.buffers.emplace_back(name, host_copy(tensor));
  }
  finish_snapshot(snapshot);
  return snapshot;
}

void Stage::restore(const Restored& from, std::int64_t first_generation,
                    std::span<const std::int64_t> older_generations, bool predicted) {
  at::NoGradGuard no_grad;
  versions_.begin_after(first_generation);
  for (std::size_t i = 0; i < older_generations.size(); ++i)
    versions_.restore(older_generations[i],
                      from.flat(older_name(i, older_generations.size(), predicted), layout_));
  restored_ = from.flat("weights", layout_);
  for (const auto& [name, tensor] : optimizer_state().named()) {
    if (name == "master") {
      tensor.copy_(own(restored_));
    } else if (from.has(name)) {
      tensor.copy_(own(from.flat(name, layout_)));
    }
  }
  restore_counters(from.counters);
}

void Stage::restore_weights(bool writes) {
  const Tensor weights = std::exchange(restored_, Tensor());
  if (!writes) return;
  versions_.begin_write().copy_(weights);
  versions_.publish();
}

std::vector<std::uint64_t> Stage::layer_checksums() {
  if (!is_sharded()) return weights::layer_checksums(layout_, newest_weights());
  const device::PurposeScope purpose(Term::Transfer);
  const Tensor room = at::zeros({layout_.size()}, gradients_.flat(0).options());
  return weights::layer_checksums(layout_, gather_weights(room).to(at::kCPU));
}

}  // namespace twobw::runtime
