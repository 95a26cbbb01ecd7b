#include "engine/optim/gpu_optimizer.h"

#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "core/base/error.h"
#include "core/base/kinds.h"
#include "engine/device/gpu.h"
#include "engine/optim/kernels.h"
#include "engine/optim/kernels_cuda.h"

namespace twobw::optim {
namespace {

using at::Tensor;

constexpr std::size_t kScaling = offsetof(cuda::Control, scaling);

// The bytes of `items` on the GPU.
template <typename T>
Tensor upload(const std::vector<T>& items, const at::TensorOptions& on_gpu) {
  const auto bytes = static_cast<std::int64_t>(items.size() * sizeof(T));
  const Tensor host = at::from_blob(const_cast<T*>(items.data()), {bytes}, at::kByte);
  return host.to(on_gpu.dtype(at::kByte));
}

template <typename T>
T* as(const Tensor& tensor) {
  return reinterpret_cast<T*>(tensor.mutable_data_ptr());
}

cudaStream_t current_stream() {
  return c10::cuda::getCurrentCUDAStream();
}

}  // namespace

GpuOptimizer::GpuOptimizer(const OptimizerConfig& config, const weights::Layout& layout,
                           const Tensor& initial, const Tensor& compute, bool predicts,
                           std::optional<weights::Range> shard)
    : StageOptimizer(config, layout, shard, compute.scalar_type()) {
  const at::TensorOptions on_gpu = compute.options();
  state_ = make_state(config, shard_.of(initial), on_gpu, predicts || compute.scalar_type() != at::kFloat);
  make_pieces(on_gpu);
  sum_ = at::zeros({1}, on_gpu.dtype(at::kDouble));
  control_ = upload(std::vector<cuda::Control>{{.last_scale = first_scale(config)}}, on_gpu);
}

// Pieces of updates count from the shard's first weight, pieces of norms from the gradient's.
void GpuOptimizer::make_pieces(const at::TensorOptions& on_gpu) {
  std::vector<cuda::Piece> pieces, norm_pieces;
  std::vector<int> first = {0};
  for (const weights::Parameter& parameter : layout_.parameters()) {
    const GroupValues values = group_values(config_, parameter.spec.group_name(), parameter.spec.decay);
    const std::int64_t from = std::max(parameter.offset, shard_.begin);
    const std::int64_t to = std::min(parameter.offset + parameter.count, shard_.end());
    if (!parameter.alias && !is_tensorwise(config_, parameter) && from < to)
      cuda::add_pieces(pieces, from - shard_.begin, to - from, static_cast<float>(values.weight_decay),
                       static_cast<float>(values.rate));
    if (!parameter.spec.tied_to.empty()) continue;  // its gradient belongs to the primary
    const std::int64_t piece = norm_piece(parameter.count);
    for (std::int64_t at = 0; at < parameter.count; at += piece) {
      if (!shard_.holds(parameter.offset + at)) continue;
      cuda::add_pieces(norm_pieces, parameter.gradient_offset + at, std::min(piece, parameter.count - at), 0);
      first.push_back(static_cast<int>(norm_pieces.size()));
    }
  }
  piece_count_ = static_cast<int>(pieces.size());
  norm_piece_count_ = static_cast<int>(norm_pieces.size());
  norm_count_ = static_cast<int>(first.size()) - 1;
  pieces_ = upload(pieces, on_gpu);
  norm_pieces_ = upload(norm_pieces, on_gpu);
  first_piece_ = upload(first, on_gpu);
  partial_ = at::empty({norm_piece_count_}, on_gpu.dtype(at::kDouble));
  norms_ = at::empty({2, norm_count_}, on_gpu.dtype(at::kDouble));
}

Tensor GpuOptimizer::squared_norms(std::int64_t batch, const Tensor& gradient) {
  Tensor norms = norms_[batch % 2];
  cuda::squared_norms(data_of(gradient), as<cuda::Piece>(norm_pieces_), norm_piece_count_,
                      as<int>(first_piece_), norm_count_, as<double>(partial_),
                      norms.mutable_data_ptr<double>(), current_stream());
  return norms;
}

// The true weights may be in another buffer than the master.
template <typename Compute>
StreamsOf<Compute> GpuOptimizer::streams_of(const Tensor& compute) const {
  return {.source = data_of(state_.master),
          .target = data_of(state_.master),
          .moment1 = data_of(state_.moment1),
          .moment2 = data_of(state_.moment2),
          .compute = compute.defined() ? as<Compute>(compute) : nullptr};
}

// Calls work(streams) for the format of the layers' weights.
template <typename Work>
void GpuOptimizer::with_streams(const Tensor& compute, const Work& work) const {
  const at::ScalarType format = compute.defined() ? compute.scalar_type() : at::kFloat;
  if (format == at::kBFloat16) {
    work(streams_of<__nv_bfloat16>(compute));
  } else if (format == at::kHalf) {
    work(streams_of<__half>(compute));
  } else {
    work(streams_of<float>(compute));
  }
}

void GpuOptimizer::prepare(std::span<const Tensor> norms, cudaStream_t stream) {
  if (!gathered_.defined()) {
    std::int64_t count = 0;
    for (const Tensor& of_stage : norms) count += of_stage.numel();
    gathered_ = at::empty({count}, norms_.options());
  }
  std::int64_t at = 0;
  for (const Tensor& of_stage : norms) {
    gathered_.narrow(0, at, of_stage.numel()).copy_(of_stage, /*non_blocking=*/true);
    at += of_stage.numel();
  }
  cuda::sum_norms(as<double>(gathered_), static_cast<int>(at), as<double>(sum_), stream);
  cuda::prepare(as<double>(sum_), config_.clip, as<cuda::Control>(control_), stream);
}

void GpuOptimizer::queue_update(double learning_rate, std::span<const Tensor> norms,
                                const Tensor& all_gradients, const Tensor& all_sources,
                                const Tensor& all_targets, const Prediction* next_of_all) {
  const cudaStream_t stream = current_stream();
  prepare(norms, stream);
  const Tensor gradient = shard_.of(all_gradients), source = shard_.of(all_sources),
               target = shard_.of(all_targets);
  const Prediction of_own = next_of_all != nullptr ? next_of_all->of(shard_) : Prediction();
  const Prediction* const next = next_of_all != nullptr ? &of_own : nullptr;
  with_streams(next != nullptr ? next->target : target, [&](auto streams) {
    streams.gradient = data_of(gradient);
    if (!state_.master.defined()) {
      streams.source = data_of(source);
      streams.target = data_of(target);
      streams.compute = nullptr;
    }
    if (next != nullptr) streams.partial_gradient = data_of(next->gradient);
    std::visit(
        [&](const auto& rule) {
          const auto* pieces = as<cuda::Piece>(pieces_);
          if (next == nullptr) return cuda::apply(rule, streams, pieces, piece_count_, control(), stream);
          auto coming = rule;
          coming.learning_rate = static_cast<float>(next->learning_rate);
          cuda::apply_and_predict(rule, coming, static_cast<float>(next->ratio), streams, pieces,
                                  piece_count_, control(), stream);
        },
        rule_for(config_, learning_rate));
  });
  tensorwise_.apply(
      tensorwise_buffers(gradient, source, target, next == nullptr ? target : Tensor()),
      scalars_of(learning_rate, of_control<float>(offsetof(cuda::Control, gradient_scale), at::kFloat),
                 of_control<std::int32_t>(offsetof(cuda::Control, skip), at::kInt) != 0));
  cuda::count_update(as<cuda::Control>(control_), stream);
  ++judged_;
  if (next != nullptr) predict_tensorwise(*next);
  clear_other_gradients(all_gradients);
}

Applied GpuOptimizer::apply(double learning_rate, std::span<const Tensor> norms, const Tensor& gradient,
                            const Tensor& source, const Tensor& target) {
  queue_update(learning_rate, norms, gradient, source, target);
  const cudaStream_t stream = current_stream();
  cuda::Control made;
  device::check_cuda(cudaMemcpyAsync(&made, control(), sizeof made, cudaMemcpyDeviceToHost, stream),
                     "cudaMemcpyAsync");
  device::check_cuda(cudaStreamSynchronize(stream), "an update");
  return applied_of(made);
}

Applied applied_of(const cuda::Control& control) {
  return {.gradient_norm = std::sqrt(control.squared_norm),
          .skipped = control.skip != 0,
          .loss_scale = control.loss_scale};
}

void GpuOptimizer::predict(const Prediction& of_all) {
  const Prediction prediction = of_all.of(shard_);
  with_streams(prediction.target, [&](auto streams) {
    streams.partial_gradient = data_of(prediction.gradient);
    std::visit(
        [&](const auto& rule) {
          cuda::predict(rule, static_cast<float>(prediction.ratio), streams, as<cuda::Piece>(pieces_),
                        piece_count_, control(), current_stream());
        },
        rule_for(config_, prediction.learning_rate));
  });
  predict_tensorwise(prediction);
}

// A number of the control in device memory, which the queue has written by the time it is read.
template <typename T>
Tensor GpuOptimizer::of_control(std::size_t offset, at::ScalarType type) const {
  return control_.narrow(0, static_cast<std::int64_t>(offset), sizeof(T)).view(type)[0];
}

TensorwiseScalars GpuOptimizer::scalars_of(double learning_rate, const Tensor& gradient_scale,
                                           const Tensor& skip) const {
  return {.learning_rate = learning_rate,
          .gradient_scale = gradient_scale,
          .skip = skip,
          .applied = of_control<std::int32_t>(offsetof(cuda::Control, applied), at::kInt).to(at::kDouble)};
}

void GpuOptimizer::predict_tensorwise(const Prediction& prediction) const {
  const Tensor scale = of_control<float>(offsetof(cuda::Control, last_scale), at::kFloat) *
                       static_cast<float>(prediction.ratio) /
                       of_control<float>(kScaling + offsetof(LossScaling, current), at::kFloat);
  tensorwise_.predict(tensorwise_buffers(prediction.gradient, {}, {}, prediction.target),
                      scalars_of(prediction.learning_rate, scale, Tensor()));
}

const cuda::Control* GpuOptimizer::control() const {
  return as<cuda::Control>(control_);
}

void GpuOptimizer::begin_scaling(const LossScaling& start) {
  control_ = upload(std::vector<cuda::Control>{{.last_scale = first_scale(config_), .scaling = start}},
                    control_.options());
}

Tensor GpuOptimizer::loss_scale_of(std::int64_t batch) const {
  TWOBW_ASSERT(batch == judged_ || batch == judged_ + 1, "batch {} begins when {} updates are queued", batch,
               judged_);
  const std::size_t field = batch == judged_ ? offsetof(LossScaling, current) : offsetof(LossScaling, next);
  return of_control<float>(kScaling + field, at::kFloat);
}

Counters GpuOptimizer::read_counts(const Tensor& on_cpu) {
  const auto* control = reinterpret_cast<const cuda::Control*>(on_cpu.const_data_ptr());
  return {.applied = control->applied, .last_scale = control->last_scale, .scaling = control->scaling};
}

void GpuOptimizer::restore(const Counters& counters) {
  control_ = upload(std::vector<cuda::Control>{{.applied = static_cast<std::int32_t>(counters.applied),
                                                .last_scale = counters.last_scale,
                                                .scaling = counters.scaling}},
                    control_.options());
  judged_ = counters.scaling.judged;
}

void GpuOptimizer::add_to(Footprint& footprint) const {
  const double master = state_.master.defined() ? static_cast<double>(state_.master.nbytes()) : 0;
  footprint[Term::Master] += master;
  footprint[Term::Optimizer] += static_cast<double>(state_.bytes()) - master;
}

std::unique_ptr<StageOptimizer> make_gpu_optimizer(const OptimizerConfig& config,
                                                   const weights::Layout& layout, const Tensor& initial,
                                                   const Tensor& compute, bool predicts) {
  return std::make_unique<GpuOptimizer>(config, layout, initial, compute, predicts);
}

}  // namespace twobw::optim
