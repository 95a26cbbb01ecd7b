#include "optim/serial.h"

#include <cmath>

#include "optim/optimizer.h"

namespace twobw::optim {
namespace {

class SerialCpuOptimizer final : public SerialOptimizer {
 public:
  SerialCpuOptimizer(const Config& config, const weights::Layout& layout, const at::Tensor& initial)
      : layout_(layout),
        clip_(config.optimizer.clip),
        optimizer_(config.optimizer, layout, config.pipeline.sync_updates, initial) {}

  Applied apply(std::int64_t update, double learning_rate, const at::Tensor& gradient,
                const at::Tensor& source, const at::Tensor& target) override {
    double sum = 0;
    for (const double square : squared_norms(layout_, gradient)) sum += square;
    const Applied applied{.gradient_norm = std::sqrt(sum), .skipped = !std::isfinite(sum)};
    optimizer_.apply({.index = update,
                      .learning_rate = learning_rate,
                      .gradient_scale = clip_scale(applied.gradient_norm, clip_),
                      .skip = applied.skipped},
                     gradient, source, target);
    return applied;
  }

  at::Tensor true_weights(const at::Tensor& newest) const override { return optimizer_.true_weights(newest); }

 private:
  const weights::Layout& layout_;
  double clip_;
  Optimizer optimizer_;
};

}  // namespace

std::unique_ptr<SerialOptimizer> make_serial_optimizer(const Config& config, const weights::Layout& layout,
                                                       const at::Tensor& initial, const at::Tensor& compute) {
  if (!compute.is_cpu()) return make_serial_gpu_optimizer(config, layout, initial, compute);
  return std::make_unique<SerialCpuOptimizer>(config, layout, initial);
}

}  // namespace twobw::optim
