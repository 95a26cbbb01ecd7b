#include <c10/cuda/CUDAStream.h>

#include <cmath>

#include "engine/device/gpu.h"
#include "engine/optim/gpu_optimizer.h"
#include "engine/optim/serial.h"

namespace twobw::optim {
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
