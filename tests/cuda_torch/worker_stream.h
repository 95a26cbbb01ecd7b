// A test fixture that registers the current stream as a worker's; skipped without a GPU.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>

#include "engine/device/gpu.h"

namespace twobw::models {

// The relative error of the whole tensor, in the 2-norm; the tensors may be on different devices.
inline double relative_error(const at::Tensor& actual, const at::Tensor& expected) {
  const at::Tensor a = actual.detach().cpu().to(at::kDouble), e = expected.detach().cpu().to(at::kDouble);
  const double norm = e.norm().item<double>();
  return (a - e).norm().item<double>() / (norm > 0 ? norm : 1.0);
}

class WorkerStreamTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA() || at::cuda::device_count() == 0) GTEST_SKIP() << "no GPU here";
    constexpr std::int64_t kWorkspace = 32 << 20;
    workspace_ = at::empty({kWorkspace}, at::TensorOptions(at::kCUDA).dtype(at::kByte));
    register_stream(false);
  }
  void TearDown() override {
    if (IsSkipped()) return;
    at::cuda::getCurrentCUDAStream().synchronize();
    device::forget_gpu_stream(at::cuda::getCurrentCUDAStream());
    at::globalContext().setDeterministicAlgorithms(false, false);
  }

  void register_stream(bool deterministic) {
    device::register_gpu_stream(
        at::cuda::getCurrentCUDAStream(),
        {.gpu = 0,
         .product_multiprocessors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount,
         .workspace = workspace_.data_ptr(),
         .workspace_bytes = workspace_.nbytes(),
         .deterministic = deterministic});
  }

 private:
  at::Tensor workspace_;
};

}  // namespace twobw::models
