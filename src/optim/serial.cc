#include "optim/serial.h"

namespace twobw::optim {
namespace {

class SerialCpuOptimizer final : public SerialOptimizer {
 public:
  SerialCpuOptimizer(const Config& config, const weights::Layout& layout, const at::Tensor& initial)
      : layout_(layout), optimizer_(config.optimizer, layout, config.pipeline.sync_updates, initial) {}

  Applied apply(std::int64_t update, double learning_rate, const at::Tensor& gradient,
                const at::Tensor& source, const at::Tensor& target) override {
    return optimizer_.step(update, learning_rate, squared_norms(layout_, gradient), gradient, source, target);
  }

  at::Tensor true_weights(const at::Tensor& newest) const override { return optimizer_.true_weights(newest); }

 private:
  const weights::Layout& layout_;
  Optimizer optimizer_;
};

}  // namespace

std::unique_ptr<SerialOptimizer> make_serial_optimizer(const Config& config, const weights::Layout& layout,
                                                       const at::Tensor& initial, const at::Tensor& compute) {
  if (!compute.is_cpu()) return make_serial_gpu_optimizer(config, layout, initial, compute);
  return std::make_unique<SerialCpuOptimizer>(config, layout, initial);
}

}  // namespace twobw::optim
