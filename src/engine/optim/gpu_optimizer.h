// The optimizer of one stage on a GPU. Work is queued on the current stream; decisions that depend on the
// gradient, clipping and skipping, stay on the device.
#pragma once

#include <ATen/ATen.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>
#include <span>

#include "core/base/config.h"
#include "core/base/memory_terms.h"
#include "engine/optim/kernels_cuda.h"
#include "engine/optim/optimizer.h"
#include "engine/optim/state.h"
#include "engine/optim/tensorwise.h"
#include "engine/weights/layout.h"

namespace twobw::optim {

// The result of the last update.
Applied applied_of(const cuda::Control& control);

class GpuOptimizer final : public StageOptimizer {
 public:
  // `initial`: flat W(0) in single precision, on the CPU; `compute`: a weight buffer of the layers; `shard`:
  // as for Optimizer.
  GpuOptimizer(const OptimizerConfig& config, const weights::Layout& layout, const at::Tensor& initial,
               const at::Tensor& compute, bool predicts = false, std::optional<weights::Range> shard = {});

  // As optim::squared_norms() orders them; valid until the call after the next. From any thread, one at a
  // time.
  at::Tensor squared_norms(std::int64_t batch, const at::Tensor& gradient) override;

  // apply() without waiting for its result. `next` as in Optimizer::apply.
  void queue_update(double learning_rate, std::span<const at::Tensor> norms, const at::Tensor& gradient,
                    const at::Tensor& source, const at::Tensor& target, const Prediction* next = nullptr);
  Applied apply(double learning_rate, std::span<const at::Tensor> norms, const at::Tensor& gradient,
                const at::Tensor& source, const at::Tensor& target) override;
  void predict(const Prediction& prediction) override;

  // State of the last update, on the device.
  const cuda::Control* control() const;

  void begin_scaling(const LossScaling& start) override;
  // The scale of a batch that may begin, one float on the device.
  at::Tensor loss_scale_of(std::int64_t batch) const;

  // The counters on the device, as bytes; and the values of a copy of them on the CPU.
  const at::Tensor& counts() const { return control_; }
  static Counters read_counts(const at::Tensor& on_cpu);
  void restore(const Counters& counters) override;
  void add_to(Footprint& footprint) const;

 private:
  template <typename Compute>
  StreamsOf<Compute> streams_of(const at::Tensor& compute) const;
  template <typename Work>
  void with_streams(const at::Tensor& compute, const Work& work) const;
  TensorwiseScalars scalars_of(double learning_rate, const at::Tensor& gradient_scale,
                               const at::Tensor& skip) const;
  template <typename T>
  at::Tensor of_control(std::size_t offset, at::ScalarType type) const;
  void make_pieces(const at::TensorOptions& on_gpu);
  void predict_tensorwise(const Prediction& prediction) const;  // of the shard
  void prepare(std::span<const at::Tensor> norms, cudaStream_t stream);

  at::Tensor pieces_, norm_pieces_, first_piece_, partial_, norms_, gathered_, sum_, control_;
  int piece_count_ = 0, norm_piece_count_ = 0, norm_count_ = 0;
  std::int64_t judged_ = 0;  // updates queued so far
};

}  // namespace twobw::optim
