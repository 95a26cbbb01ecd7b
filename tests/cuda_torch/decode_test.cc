// A decoder on a GPU against the CPU's, its steps captured in graphs.
#include <ATen/core/grad_mode.h>

#include <functional>
#include <thread>

#include "app/inference/decoder.h"
#include "engine/device/device.h"
#include "on_gpu.h"
#include "tests/app/inference/small_models.h"

namespace twobw::inference {
namespace {
namespace on_gpu {

using at::Tensor;
using models::relative_error;

class DecodingOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device::gpu_count() == 0) GTEST_SKIP() << "no GPU here";
  }

  // Graphs are captured on the stream of a worker's thread.
  static void on_worker(const std::function<void()>& work) {
    std::thread([&] {
      const device::DeviceBinding binding("test", {.gpu = GpuSlice{}});
      at::NoGradGuard no_grad;
      work();
    }).join();
  }

  static Stage stage_on(const models::Model& model, const at::TensorOptions& compute) {
    Stage stage = made_up::whole_model(model);
    stage.compute = compute;
    for (Tensor& parameter : stage.parameters) parameter = parameter.to(compute);
    return stage;
  }
  // Logits of three rows after their prompts and after every step.
  static std::vector<Tensor> decode(const models::Model& model, const at::TensorOptions& compute) {
    const Stage stage = stage_on(model, compute);
    Decoder decoder(stage, model, 3, made_up::kContext);
    std::vector<Tensor> logits;
    const std::vector<int> lengths = {1, 4, 9};
    for (std::size_t row = 0; row < 3; ++row)
      logits.push_back(
          decoder.begin(static_cast<std::int64_t>(row), made_up::made_up_tokens(lengths[row], row)));
    for (std::int64_t step = 0; step < 6; ++step) {
      logits.push_back(decoder.step(made_up::made_up_tokens(3, 40 + step),
                                    {lengths[0] + step, lengths[1] + step, lengths[2] + step}));
    }
    return logits;
  }
};

TEST_F(DecodingOnGpu, StepsAreThoseOfTheCpu) {
  on_worker([] {
    for (const auto& [name, config] : made_up::small_models()) {
      SCOPED_TRACE(name);
      const models::Model model = models::build(config);
      const std::vector<Tensor> on_cpu = decode(model, at::kFloat);
      const std::vector<Tensor> in_float = decode(model, at::TensorOptions(at::kCUDA).dtype(at::kFloat));
      const std::vector<Tensor> in_bfloat16 =
          decode(model, at::TensorOptions(at::kCUDA).dtype(at::kBFloat16));
      const std::vector<Tensor> in_half = decode(model, at::TensorOptions(at::kCUDA).dtype(at::kHalf));
      for (std::size_t i = 0; i < on_cpu.size(); ++i) {
        EXPECT_LT(relative_error(in_float[i], on_cpu[i]), 1e-5) << "logits " << i;
        EXPECT_LT(relative_error(in_bfloat16[i], on_cpu[i]), 0.05) << "logits " << i;
        EXPECT_LT(relative_error(in_half[i], on_cpu[i]), 0.01) << "logits " << i;
      }
    }
  });
}

}  // namespace on_gpu
}  // namespace
}  // namespace twobw::inference
