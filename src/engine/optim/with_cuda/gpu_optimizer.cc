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
#include "engine/optim/serial.h"

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

}  // namespace

GpuOptimizer::GpuOptimizer(const OptimizerConfig& config, const weights::Layout& layout,
                           const Tensor& initial, const Tensor& compute, bool predicts,
                           std::optional<weights::Range> shard)
    : config_(config),
      layout_(layout),
      shard_(shard.value_or(weights::Range{.count = layout.size()})),
      tensorwise_(config, layout, compute.scalar_type(), shard_),
      state_(make_state(config, shard_.of(initial), compute.options(),
                        predicts || compute.scalar_type() != at::kFloat)) {
  const at::TensorOptions on_gpu = compute.options();
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
    if (!parameter.alias && !tensorwise_.has(parameter) && from < to)
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

Tensor GpuOptimizer::squared_norms(std::int64_t batch, const Tensor& gradient, cudaStream_t stream) {
  Tensor norms = norms_[batch % 2];
  cuda::squared_norms(data_of(gradient), as<cuda::Piece>(norm_pieces_), norm_piece_count_,
                      as<int>(first_piece_), norm_count_, as<double>(partial_),
                      norms.mutable_data_ptr<double>(), stream);
  return norms;
}

// Calls work(optimizer's figures).
template <typename Work>
void GpuOptimizer::with_rule(double learning_rate, const Work& work) const {
  const auto rate = static_cast<float>(learning_rate);
  const auto beta1 = static_cast<float>(config_.betas[0]), beta2 = static_cast<float>(config_.betas[1]);
  const OptimizerRule kind = optimizer_kind(config_.name).rule;
  if (kind == OptimizerRule::Sgd) {
    work(cuda::Sgd{.learning_rate = rate, .momentum = static_cast<float>(config_.momentum)});
  } else if (kind == OptimizerRule::Lion) {
    work(cuda::Lion{.learning_rate = rate, .beta1 = beta1, .beta2 = beta2});
  } else {
    work(cuda::AdamW{
        .learning_rate = rate, .beta1 = beta1, .beta2 = beta2, .eps = static_cast<float>(config_.eps)});
  }
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

void GpuOptimizer::apply(double learning_rate, std::span<const Tensor> norms, const Tensor& all_gradients,
                         const Tensor& all_sources, const Tensor& all_targets, cudaStream_t stream,
                         const Prediction* next_of_all) {
  prepare(norms, stream);
  const Tensor gradient = shard_.of(all_gradients), source = shard_.of(all_sources),
               target = shard_.of(all_targets);
  const Prediction of_own = next_of_all != nullptr ? next_of_all->of(shard_) : Prediction();
  const Prediction* const next = next_of_all != nullptr ? &of_own : nullptr;
  const Tensor& written = next != nullptr ? next->target : target;
  const auto work = [&](auto streams) {
    streams.gradient = data_of(gradient);
    if (next == nullptr) {
      return with_rule(learning_rate, [&](const auto& rule) {
        cuda::apply(rule, streams, as<cuda::Piece>(pieces_), piece_count_, control(), stream);
      });
    }
    streams.partial_gradient = data_of(next->gradient);
    with_rule(learning_rate, [&](const auto& rule) {
      auto coming = rule;
      coming.learning_rate = static_cast<float>(next->learning_rate);
      cuda::apply_and_predict(rule, coming, static_cast<float>(next->ratio), streams,
                              as<cuda::Piece>(pieces_), piece_count_, control(), stream);
    });
  };
  if (written.defined() && written.scalar_type() == at::kBFloat16) {
    work(streams_of<__nv_bfloat16>(written));
  } else if (written.defined() && written.scalar_type() == at::kHalf) {
    work(streams_of<__half>(written));
  } else if (state_.master.defined()) {
    work(streams_of<float>(written));
  } else {
    Streams streams = streams_of<float>({});
    streams.source = data_of(source);
    streams.target = data_of(target);
    work(streams);
  }
  TensorwiseBuffers buffers = tensorwise_buffers(gradient, next == nullptr ? target : Tensor());
  if (!state_.master.defined()) {
    buffers.source = source;
    buffers.target = target;
    buffers.compute = Tensor();
  }
  tensorwise_.apply(
      buffers,
      scalars_of(learning_rate, of_control<float>(offsetof(cuda::Control, gradient_scale), at::kFloat),
                 of_control<std::int32_t>(offsetof(cuda::Control, skip), at::kInt) != 0));
  cuda::count_update(as<cuda::Control>(control_), stream);
  ++judged_;
  if (next != nullptr) predict_tensorwise(*next);
  // Gradients of other shards; behind them those of aliases, already summed into their partners'.
  if (shard_.begin > 0) all_gradients.narrow(0, 0, shard_.begin).zero_();
  if (layout_.gradient_size() > shard_.end())
    all_gradients.narrow(0, shard_.end(), layout_.gradient_size() - shard_.end()).zero_();
}

void GpuOptimizer::predict(const Prediction& of_all, cudaStream_t stream) {
  const Prediction prediction = of_all.of(shard_);
  const auto work = [&](auto streams) {
    streams.partial_gradient = data_of(prediction.gradient);
    with_rule(prediction.learning_rate, [&](const auto& rule) {
      cuda::predict(rule, static_cast<float>(prediction.ratio), streams, as<cuda::Piece>(pieces_),
                    piece_count_, control(), stream);
    });
  };
  if (prediction.target.scalar_type() == at::kBFloat16) {
    work(streams_of<__nv_bfloat16>(prediction.target));
  } else if (prediction.target.scalar_type() == at::kHalf) {
    work(streams_of<__half>(prediction.target));
  } else {
    work(streams_of<float>(prediction.target));
  }
  predict_tensorwise(prediction);
}

// A number of the control in device memory, which the queue has written by the time it is read.
template <typename T>
Tensor GpuOptimizer::of_control(std::size_t offset, at::ScalarType type) const {
  return control_.narrow(0, static_cast<std::int64_t>(offset), sizeof(T)).view(type)[0];
}

TensorwiseBuffers GpuOptimizer::tensorwise_buffers(const Tensor& gradient, const Tensor& compute) const {
  return {.source = state_.master,
          .target = state_.master,
          .gradient = gradient,
          .moment1 = state_.moment1,
          .moment2 = state_.moment2,
          .compute = compute};
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
  tensorwise_.predict(tensorwise_buffers(prediction.gradient, prediction.target),
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

namespace {

class SerialGpuOptimizer final : public SerialOptimizer {
 public:
  SerialGpuOptimizer(const Config& config, const weights::Layout& layout, const at::Tensor& initial,
                     const at::Tensor& compute, bool predicts)
      : optimizer_(config.optimizer, layout, initial, compute, predicts) {
    optimizer_.begin_scaling(loss_scaling_of(config.train));
  }

  at::Tensor squared_norms(std::int64_t update, const at::Tensor& gradient) override {
    return optimizer_.squared_norms(update, gradient, c10::cuda::getCurrentCUDAStream());
  }

  Applied apply(double learning_rate, std::span<const at::Tensor> norms, const at::Tensor& gradient,
                const at::Tensor& source, const at::Tensor& target) override {
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
    optimizer_.apply(learning_rate, norms, gradient, source, target, stream);
    cuda::Control control;
    device::check_cuda(
        cudaMemcpyAsync(&control, optimizer_.control(), sizeof control, cudaMemcpyDeviceToHost, stream),
        "cudaMemcpyAsync");
    device::check_cuda(cudaStreamSynchronize(stream), "an update");
    return {.gradient_norm = std::sqrt(control.squared_norm),
            .skipped = control.skip != 0,
            .loss_scale = control.loss_scale};
  }

  void predict(const Prediction& prediction) override {
    optimizer_.predict(prediction, c10::cuda::getCurrentCUDAStream());
  }

  at::Tensor true_weights(const at::Tensor& newest) const override { return optimizer_.true_weights(newest); }

 private:
  GpuOptimizer optimizer_;
};

}  // namespace

std::unique_ptr<SerialOptimizer> make_serial_gpu_optimizer(const Config& config,
                                                           const weights::Layout& layout,
                                                           const at::Tensor& initial,
                                                           const at::Tensor& compute, bool predicts) {
  return std::make_unique<SerialGpuOptimizer>(config, layout, initial, compute, predicts);
}

}  // namespace twobw::optim
