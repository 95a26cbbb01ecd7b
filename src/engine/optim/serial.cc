#include "engine/optim/serial.h"

namespace twobw::optim {
namespace {

class SerialCpuOptimizer final : public SerialOptimizer {
 public:
  SerialCpuOptimizer(const Config& config, const weights::Layout& layout, const at::Tensor& initial,
                     at::ScalarType compute, bool predicts)
      : layout_(layout), optimizer_(config.optimizer, layout, initial, predicts, compute) {
    optimizer_.begin_scaling(loss_scaling_of(config.train));
  }

  at::Tensor squared_norms(std::int64_t, const at::Tensor& gradient) override {
    return at::tensor(optim::squared_norms(layout_, gradient), at::kDouble);
  }

  Applied apply(double learning_rate, std::span<const at::Tensor> norms, const at::Tensor& gradient,
                const at::Tensor& source, const at::Tensor& target) override {
    std::vector<double> squares;
    for (const at::Tensor& part : norms) {
      const double* values = part.const_data_ptr<double>();
      squares.insert(squares.end(), values, values + part.numel());
    }
    return optimizer_.step(learning_rate, squares, gradient, source, target);
  }

  void predict(const Prediction& prediction) override { optimizer_.predict(prediction); }

  at::Tensor true_weights(const at::Tensor& newest) const override { return optimizer_.true_weights(newest); }

 private:
  const weights::Layout& layout_;
  Optimizer optimizer_;
};

}  // namespace

std::unique_ptr<SerialOptimizer> make_serial_optimizer(const Config& config, const weights::Layout& layout,
                                                       const at::Tensor& initial, const at::Tensor& compute,
                                                       bool predicts) {
  if (!compute.is_cpu()) return make_serial_gpu_optimizer(config, layout, initial, compute, predicts);
  return std::make_unique<SerialCpuOptimizer>(config, layout, initial, compute.scalar_type(), predicts);
}

}  // namespace twobw::optim
