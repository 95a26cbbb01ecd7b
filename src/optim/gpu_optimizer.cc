#include "optim/gpu_optimizer.h"

#include "base/error.h"
#include "device/gpu.h"
#include "optim/extrapolation.h"
#include "optim/norms_cuda.h"

namespace twobw::optim {
namespace {

using at::Tensor;

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

double bytes(const Tensor& tensor) {
  return tensor.defined() ? static_cast<double>(tensor.nbytes()) : 0;
}

}  // namespace

GpuOptimizer::GpuOptimizer(const OptimizerConfig& config, const weights::Layout& layout,
                           std::int64_t sync_updates, const Tensor& initial, const Tensor& compute,
                           bool predicts)
    : config_(config), layout_(layout), sync_updates_(sync_updates), predicts_(predicts) {
  const at::TensorOptions on_gpu = compute.options();
  const auto state = [&] { return at::zeros({layout.size()}, on_gpu.dtype(at::kFloat)); };
  moment1_ = state();
  if (has_second_moment(config)) moment2_ = state();
  if (!config.extrapolate_update.empty()) update1_ = state();
  if (config.extrapolate_update.size() > 1) update2_ = state();
  if (!config.extrapolate_weights.empty() || predicts || compute.scalar_type() != at::kFloat)
    master_ = initial.to(on_gpu.dtype(at::kFloat));
  if (config.extrapolate_weights.size() > 1) applied1_ = state();

  std::vector<cuda::Piece> pieces, norm_pieces;
  std::vector<int> first = {0};
  for (const weights::Parameter& parameter : layout.parameters()) {
    const float decay = parameter.spec.decay ? static_cast<float>(config.weight_decay) : 0.0f;
    if (!parameter.alias) cuda::add_pieces(pieces, parameter.offset, parameter.count, decay);
    if (!parameter.spec.tied_to.empty()) continue;  // its gradient belongs to the primary
    cuda::add_pieces(norm_pieces, parameter.gradient_offset, parameter.count, 0);
    first.push_back(static_cast<int>(norm_pieces.size()));
  }
  piece_count_ = static_cast<int>(pieces.size());
  norm_piece_count_ = static_cast<int>(norm_pieces.size());
  norm_count_ = static_cast<int>(first.size()) - 1;
  pieces_ = upload(pieces, on_gpu);
  norm_pieces_ = upload(norm_pieces, on_gpu);
  first_piece_ = upload(first, on_gpu);
  partial_ = at::empty({norm_piece_count_}, on_gpu.dtype(at::kDouble));
  norms_ = at::empty({2, norm_count_}, on_gpu.dtype(at::kDouble));
  sum_ = at::zeros({1}, on_gpu.dtype(at::kDouble));
  control_ = upload(std::vector<cuda::Control>{{.last_scale = first_scale(config)}}, on_gpu);
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
  if (config_.name == "sgd") {
    work(cuda::Sgd{.learning_rate = rate, .momentum = static_cast<float>(config_.momentum)});
  } else if (config_.name == "lion") {
    work(cuda::Lion{.learning_rate = rate, .beta1 = beta1, .beta2 = beta2});
  } else {
    work(cuda::AdamW{
        .learning_rate = rate, .beta1 = beta1, .beta2 = beta2, .eps = static_cast<float>(config_.eps)});
  }
}

// The true weights may be in another buffer than the master.
template <typename Compute>
StreamsOf<Compute> GpuOptimizer::streams_of(const Tensor& compute) const {
  return {.source = data_of(master_),
          .target = data_of(master_),
          .moment1 = data_of(moment1_),
          .moment2 = data_of(moment2_),
          .update1 = data_of(update1_),
          .update2 = data_of(update2_),
          .compute = compute.defined() ? as<Compute>(compute) : nullptr,
          .applied1 = data_of(applied1_)};
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
  cuda::sum_in_order(as<double>(gathered_), static_cast<int>(at), as<double>(sum_), stream);
  cuda::prepare(as<double>(sum_), config_.clip, as<cuda::Control>(control_), stream);
}

void GpuOptimizer::apply(std::int64_t update, double learning_rate, std::span<const Tensor> norms,
                         const Tensor& gradient, const Tensor& source, const Tensor& target,
                         cudaStream_t stream, const Prediction* next) {
  prepare(norms, stream);
  const Tensor& written = next != nullptr ? next->target : target;
  const auto work = [&](auto streams) {
    streams.gradient = data_of(gradient);
    if (next == nullptr) {
      const Extrapolation extrapolation = extrapolation_at(config_, sync_updates_, update);
      return with_rule(learning_rate, [&](const auto& rule) {
        cuda::apply(rule, extrapolation, streams, as<cuda::Piece>(pieces_), piece_count_, control(), stream);
      });
    }
    streams.ahead = data_of(next->gradient);
    with_rule(learning_rate, [&](const auto& rule) {
      auto coming = rule;
      coming.learning_rate = static_cast<float>(next->learning_rate);
      cuda::apply_and_predict(rule, coming, static_cast<float>(next->ratio), streams,
                              as<cuda::Piece>(pieces_), piece_count_, control(), stream);
    });
  };
  if (written.defined() && written.scalar_type() == at::kBFloat16) {
    work(streams_of<__nv_bfloat16>(written));
  } else if (master_.defined()) {
    work(streams_of<float>(written));
  } else {
    Streams streams = streams_of<float>({});
    streams.source = data_of(source);
    streams.target = data_of(target);
    work(streams);
  }
  cuda::count_update(as<cuda::Control>(control_), stream);
  // What lies past the weights are the aliases' gradients, already summed into their partners'.
  if (layout_.gradient_size() > layout_.size())
    gradient.narrow(0, layout_.size(), layout_.gradient_size() - layout_.size()).zero_();
}

void GpuOptimizer::predict(const Prediction& prediction, cudaStream_t stream) {
  const auto work = [&](auto streams) {
    streams.ahead = data_of(prediction.gradient);
    with_rule(prediction.learning_rate, [&](const auto& rule) {
      cuda::predict(rule, static_cast<float>(prediction.ratio), streams, as<cuda::Piece>(pieces_),
                    piece_count_, control(), stream);
    });
  };
  if (prediction.target.scalar_type() == at::kBFloat16) {
    work(streams_of<__nv_bfloat16>(prediction.target));
  } else {
    work(streams_of<float>(prediction.target));
  }
}

const cuda::Control* GpuOptimizer::control() const {
  return as<cuda::Control>(control_);
}

void GpuOptimizer::add_to(Footprint& footprint) const {
  footprint[Term::Master] += bytes(master_);
  for (const Tensor& tensor : {moment1_, moment2_, update1_, update2_, applied1_})
    footprint[Term::Optimizer] += bytes(tensor);
}

}  // namespace twobw::optim
