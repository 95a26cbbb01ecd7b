#include "engine/optim/optimizer.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "core/base/error.h"
#include "core/base/kinds.h"
#include "engine/device/memory.h"

namespace twobw::optim {
namespace {

constexpr std::int64_t kGrain = 1 << 16;

// `target` where it does not take floats.
at::Tensor if_narrow(const at::Tensor& target) {
  return target.defined() && target.scalar_type() != at::kFloat ? target : at::Tensor();
}

float* if_float(const at::Tensor& target) {
  return target.defined() && target.scalar_type() == at::kFloat ? target.mutable_data_ptr<float>() : nullptr;
}

template <typename T>
void round(const float* from, T* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(from[i]);
}

// Rounds the weights [first, last) to 16 bits for the layers, into `target` (flat, bfloat16 or half): calls
// work(streams of a piece), whose `compute` is a buffer for the loops of kernels.h, and rounds that to
// nearest even while it is in the nearest cache.
template <typename Work>
void for_each_piece(const Streams& streams, const at::Tensor& target, std::int64_t first, std::int64_t last,
                    const Work& work) {
  constexpr std::int64_t kPiece = 2048;
  std::array<float, kPiece> buffer;
  for (std::int64_t at = first; at < last; at += kPiece) {
    const std::int64_t count = std::min(kPiece, last - at);
    Streams piece = streams.from(at, count);
    piece.compute = buffer.data();
    work(piece);
    if (target.scalar_type() == at::kBFloat16) {
      round(buffer.data(), target.mutable_data_ptr<at::BFloat16>() + at, count);
    } else {
      TWOBW_ASSERT(target.scalar_type() == at::kHalf, "weights of {}", c10::toString(target.scalar_type()));
      round(buffer.data(), target.mutable_data_ptr<at::Half>() + at, count);
    }
  }
}

// Elements at a time, since differences and their sum take 12 bytes each: few on a CPU, whose caches hold
// them, many on a GPU.
std::int64_t piece_for(const at::Tensor& weights) {
  return weights.is_cuda() ? 1 << 20 : 1 << 14;
}

at::Tensor squared_distance(const at::Tensor& predicted, const at::Tensor& weights) {
  at::NoGradGuard no_grad;
  at::Tensor sum = at::zeros({}, predicted.options().dtype(at::kDouble));
  const std::int64_t piece = piece_for(predicted);
  for (std::int64_t begin = 0; begin < predicted.numel(); begin += piece) {
    const std::int64_t count = std::min(piece, predicted.numel() - begin);
    const at::Tensor rounded = weights.narrow(0, begin, count).to(predicted.scalar_type()).to(at::kFloat);
    const at::Tensor difference = predicted.narrow(0, begin, count).to(at::kFloat).sub(rounded);
    sum.add_(difference.square_().sum(at::kDouble));
  }
  return sum;
}

}  // namespace

Rule rule_for(const OptimizerConfig& config, double learning_rate) {
  const auto rate = static_cast<float>(learning_rate);
  const auto beta1 = static_cast<float>(config.betas[0]), beta2 = static_cast<float>(config.betas[1]);
  const OptimizerRule rule = optimizer_kind(config.name).rule;
  if (rule == OptimizerRule::Sgd)
    return SgdRule{.learning_rate = rate, .momentum = static_cast<float>(config.momentum)};
  if (rule == OptimizerRule::Lion) return LionRule{.learning_rate = rate, .beta1 = beta1, .beta2 = beta2};
  return AdamWRule{
      .learning_rate = rate, .beta1 = beta1, .beta2 = beta2, .eps = static_cast<float>(config.eps)};
}

StageOptimizer::StageOptimizer(const OptimizerConfig& config, const weights::Layout& layout,
                               std::optional<weights::Range> shard, at::ScalarType format)
    : config_(config),
      layout_(layout),
      shard_(shard.value_or(weights::Range{.count = layout.size()})),
      tensorwise_(config, layout, format, shard_) {}

TensorwiseBuffers StageOptimizer::tensorwise_buffers(const at::Tensor& gradient, const at::Tensor& source,
                                                     const at::Tensor& target,
                                                     const at::Tensor& compute) const {
  const bool has_master = state_.master.defined();
  return {.source = has_master ? state_.master : source,
          .target = has_master ? state_.master : target,
          .gradient = gradient,
          .moment1 = state_.moment1,
          .moment2 = state_.moment2,
          .compute = has_master ? compute : at::Tensor()};
}

void StageOptimizer::clear_other_gradients(const at::Tensor& gradients) const {
  if (shard_.begin > 0) gradients.narrow(0, 0, shard_.begin).zero_();
  if (layout_.gradient_size() > shard_.end())
    gradients.narrow(0, shard_.end(), layout_.gradient_size() - shard_.end()).zero_();
}

Optimizer::Optimizer(const OptimizerConfig& config, const weights::Layout& layout, const at::Tensor& initial,
                     bool predicts, at::ScalarType compute, std::optional<weights::Range> shard)
    : StageOptimizer(config, layout, shard, at::kFloat),
      values_(values_by_parameter(config, layout)),
      last_scale_(first_scale(config)) {
  state_ = make_state(config, shard_.of(initial), initial.options(),
                      /*keeps_master=*/predicts && compute == at::kFloat);
  if (compute == at::kFloat) return;
  const device::PurposeScope purpose(Term::Master);
  state_.master = shard ? shard_.of(initial).clone() : initial;
}

Applied Optimizer::step(double learning_rate, std::span<const double> squared_norms,
                        const at::Tensor& gradient, const at::Tensor& source, const at::Tensor& target,
                        const Prediction* next) {
  double sum = 0;
  for (const double square : squared_norms) sum += square;
  const Applied applied{.gradient_norm = std::sqrt(sum) / scaling_.current,
                        .skipped = !std::isfinite(sum),
                        .loss_scale = scaling_.current};
  apply({.learning_rate = learning_rate,
         .gradient_scale = clip_scale(applied.gradient_norm, config_.clip),
         .skip = applied.skipped},
        gradient, source, target, next);
  return applied;
}

Applied Optimizer::apply(double learning_rate, std::span<const at::Tensor> norms, const at::Tensor& gradient,
                         const at::Tensor& source, const at::Tensor& target) {
  const at::Tensor all = at::cat(norms);
  return step(learning_rate, {all.const_data_ptr<double>(), static_cast<std::size_t>(all.numel())}, gradient,
              source, target);
}

at::Tensor Optimizer::squared_norms(std::int64_t, const at::Tensor& gradient) {
  return at::tensor(optim::squared_norms(layout_, gradient, shard_), at::kDouble);
}

template <typename Work>
void Optimizer::for_each_range(const Streams& streams, const at::Tensor& rounded, const Work& work) const {
  for (const weights::Parameter& parameter : layout_.parameters()) {
    if (parameter.alias || is_tensorwise(config_, parameter)) continue;
    const std::int64_t from = std::max(parameter.offset, shard_.begin) - shard_.begin;
    const std::int64_t to = std::min(parameter.offset + parameter.count, shard_.end()) - shard_.begin;
    at::parallel_for(from, to, kGrain, [&](std::int64_t first, std::int64_t last) {
      if (!rounded.defined()) return work(parameter, streams.from(first, last - first));
      for_each_piece(streams, rounded, first, last, [&](const Streams& piece) { work(parameter, piece); });
    });
  }
}

void Optimizer::apply(const Update& update, const at::Tensor& all_gradients, const at::Tensor& all_sources,
                      const at::Tensor& all_targets, const Prediction* next_of_all) {
  const at::Tensor gradient = shard_.of(all_gradients), source = shard_.of(all_sources),
                   target = shard_.of(all_targets);
  const Prediction of_own = next_of_all != nullptr ? next_of_all->of(shard_) : Prediction();
  const Prediction* const next = next_of_all != nullptr ? &of_own : nullptr;
  // 16-bit buffers are only rounded into; the master is updated.
  Streams streams{.source = if_float(source),
                  .target = if_float(target),
                  .gradient = data_of(gradient),
                  .moment1 = data_of(state_.moment1),
                  .moment2 = data_of(state_.moment2)};
  if (state_.master.defined()) {
    streams.source = streams.target = data_of(state_.master);
    streams.compute = if_float(target);
  }
  if (next != nullptr) {
    streams.compute = if_float(next->target);
    streams.partial_gradient = data_of(next->gradient);
  }
  const auto clipping = static_cast<float>(update.gradient_scale);
  const float scale = clipping / scaling_.current;
  const std::int64_t after = applied_ + (update.skip ? 0 : 1);
  if (!update.skip) last_scale_ = clipping;
  const at::Tensor rounded = if_narrow(next != nullptr ? next->target : target);
  for_each_range(streams, rounded, [&](const weights::Parameter& parameter, const Streams& range) {
    const Rule rule = rule_of(parameter, update.learning_rate, scale, applied_);
    if (next == nullptr) {
      if (update.skip) return skip(range);
      return std::visit([&](const auto& of) { optim::apply(of, range); }, rule);
    }
    const Rule coming = rule_of(parameter, *next, after, scaling_.next);
    std::visit(
        [&](const auto& of) {
          const auto& then = std::get<std::decay_t<decltype(of)>>(coming);
          if (!update.skip) return apply_and_predict(of, then, range);
          skip(range);
          optim::predict(then, range);
        },
        rule);
  });
  tensorwise_.apply(tensorwise_buffers(gradient, source, target, next == nullptr ? target : at::Tensor()),
                    scalars_of(update.learning_rate, scale, update.skip));
  clear_other_gradients(all_gradients);
  applied_ = after;
  judge(scaling_, update.skip);
  if (next != nullptr) predict_tensorwise(*next);
}

TensorwiseScalars Optimizer::scalars_of(double learning_rate, float gradient_scale, bool skip) const {
  return {.learning_rate = learning_rate,
          .gradient_scale = at::scalar_tensor(gradient_scale, at::kFloat),
          .skip = at::scalar_tensor(skip, at::kBool),
          .applied = at::scalar_tensor(static_cast<double>(applied_), at::kDouble)};
}

void Optimizer::predict_tensorwise(const Prediction& prediction) const {
  const float scale = last_scale_ * static_cast<float>(prediction.ratio) / scaling_.current;
  tensorwise_.predict(tensorwise_buffers(prediction.gradient, {}, {}, prediction.target),
                      scalars_of(prediction.learning_rate, scale, false));
}

void Optimizer::predict(const Prediction& of_all) {
  const Prediction prediction = of_all.of(shard_);
  const Streams streams{.source = data_of(state_.master),
                        .moment1 = data_of(state_.moment1),
                        .moment2 = data_of(state_.moment2),
                        .compute = if_float(prediction.target),
                        .partial_gradient = data_of(prediction.gradient)};
  const auto work = [&](const weights::Parameter& parameter, const Streams& range) {
    std::visit([&](const auto& rule) { optim::predict(rule, range); },
               rule_of(parameter, prediction, applied_, scaling_.current));
  };
  for_each_range(streams, if_narrow(prediction.target), work);
  predict_tensorwise(prediction);
}

// `loss_scale`: of the batch that it is predicted from.
Rule Optimizer::rule_of(const weights::Parameter& parameter, const Prediction& prediction,
                        std::int64_t applied, float loss_scale) const {
  const float scale = last_scale_ * static_cast<float>(prediction.ratio) / loss_scale;
  return rule_of(parameter, prediction.learning_rate, scale, applied);
}

// The rule after `applied` updates.
Rule Optimizer::rule_of(const weights::Parameter& parameter, double learning_rate, float gradient_scale,
                        std::int64_t applied) const {
  const GroupValues& values = values_[&parameter - layout_.parameters().data()];
  Rule rule = rule_for(config_, learning_rate * values.rate);
  std::visit(
      [&](auto& of) {
        of.decay = static_cast<float>(values.weight_decay);
        of.gradient_scale = gradient_scale;
      },
      rule);
  if (auto* adamw = std::get_if<AdamWRule>(&rule)) {
    const auto step = static_cast<double>(applied + 1);
    adamw->correction1 = static_cast<float>(1.0 - std::pow(config_.betas[0], step));
    adamw->root_correction2 = static_cast<float>(std::sqrt(1.0 - std::pow(config_.betas[1], step)));
  }
  return rule;
}

std::unique_ptr<StageOptimizer> make_optimizer(const Config& config, const weights::Layout& layout,
                                               const at::Tensor& initial, const at::Tensor& compute,
                                               bool predicts) {
  std::unique_ptr<StageOptimizer> optimizer;
  if (compute.is_cpu()) {
    optimizer =
        std::make_unique<Optimizer>(config.optimizer, layout, initial, predicts, compute.scalar_type());
  } else {
    optimizer = make_gpu_optimizer(config.optimizer, layout, initial, compute, predicts);
  }
  optimizer->begin_scaling(loss_scaling_of(config.train));
  return optimizer;
}

double clip_scale(double norm, double clip) {
  if (clip <= 0.0) return 1.0;
  return std::min(1.0, clip / (norm + 1e-6));
}

std::vector<double> squared_norms(const weights::Layout& layout, const at::Tensor& gradient,
                                  const weights::Range& shard) {
  const float* values = gradient.const_data_ptr<float>();
  std::vector<double> norms;
  for (const weights::Parameter& parameter : layout.parameters()) {
    if (!parameter.spec.tied_to.empty()) continue;
    const std::int64_t piece = norm_piece(parameter.count);
    for (std::int64_t at = 0; at < parameter.count; at += piece) {
      if (!shard.holds(parameter.offset + at)) continue;
      const float* first = values + parameter.gradient_offset + at;
      norms.push_back(squared_norm(first, std::min(piece, parameter.count - at)));
    }
  }
  return norms;
}

double learning_rate(const OptimizerConfig& config, std::int64_t updates, std::int64_t t) {
  if (t < config.warmup) return config.lr * static_cast<double>(t + 1) / static_cast<double>(config.warmup);
  if (config.decay == "constant") return config.lr;
  const auto length = static_cast<double>(std::max<std::int64_t>(1, updates - config.warmup));
  const double progress = std::min(1.0, static_cast<double>(t - config.warmup) / length);
  const double remaining =
      config.decay == "linear" ? 1.0 - progress : 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return config.lr * (config.min_lr + (1.0 - config.min_lr) * remaining);
}

PredictionMiss::PredictionMiss(const at::Tensor& predicted, const at::Tensor& weights)
    : predicted_(predicted), step_(squared_distance(predicted, weights)) {}

void PredictionMiss::finish(const at::Tensor& weights) {
  const at::Tensor both = at::stack({step_, squared_distance(predicted_, weights)});
  found_ = at::empty({2}, at::TensorOptions(at::kDouble).pinned_memory(both.is_cuda()));
  found_.copy_(both, /*non_blocking=*/true);
  predicted_ = step_ = at::Tensor();
}

}  // namespace twobw::optim
