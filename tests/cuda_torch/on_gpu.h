// Compares an operation on a GPU with the CPU's, in float, and in 16 bits with the GPU's in float: outputs
// and gradients of inputs and parameters, for the same inputs and the same gradient of the output.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdlib>
#include <functional>
#include <vector>

#include "worker_stream.h"

namespace twobw::models {

inline constexpr double kFloatTolerance = 1e-5, kBfloat16Tolerance = 1e-2;
inline constexpr double kAttentionTolerance = 2e-2;  // in bfloat16, which rounds scores and probabilities

inline at::Tensor normal(at::IntArrayRef sizes, std::uint64_t seed, double scale = 1.0) {
  auto generator = at::detail::createCPUGenerator(seed);
  return at::empty(sizes, at::kFloat).normal_(0, scale, generator);
}

inline at::Tensor random_tokens(at::IntArrayRef sizes, std::int64_t vocabulary, std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return at::empty(sizes, at::kLong).random_(0, vocabulary, generator);
}

using Operation = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& in)>;

struct Case {
  Operation operation;
  // On the CPU; arguments of the operation in this order.
  std::vector<at::Tensor> inputs;      // float
  std::vector<at::Tensor> parameters;  // float
  std::vector<at::Tensor> integers{};
  bool is_loss = false;  // its gradient is 1
};

struct Results {
  std::vector<at::Tensor> outputs, gradients;  // gradients: of inputs, then of parameters
};

// Gradients of parameters accumulate in float.
inline Results run(const Case& c, at::Device device, at::ScalarType type) {
  std::vector<at::Tensor> in;
  for (const at::Tensor& x : c.inputs)
    in.push_back(x.to(device, type).detach().clone().set_requires_grad(true));
  for (const at::Tensor& x : c.parameters) {
    in.push_back(x.to(device, type).detach().clone().set_requires_grad(true));
    in.back().mutable_grad() = at::full(x.sizes(), 0.01, at::TensorOptions(device).dtype(at::kFloat));
  }
  for (const at::Tensor& x : c.integers) in.push_back(x.to(device));
  Results results{.outputs = c.operation(in)};
  std::vector<at::Tensor> gradients;
  for (std::size_t i = 0; i < results.outputs.size(); ++i) {
    const at::Tensor& out = results.outputs[i];
    gradients.push_back(c.is_loss ? at::ones_like(out)
                                  : normal(out.sizes(), 100 + i).to(device, out.scalar_type()));
  }
  torch::autograd::backward(results.outputs, gradients);
  for (std::size_t i = 0; i < c.inputs.size() + c.parameters.size(); ++i)
    results.gradients.push_back(in[i].grad());
  return results;
}

inline void expect_alike(const Results& actual, const Results& expected, double tolerance) {
  ASSERT_EQ(actual.outputs.size(), expected.outputs.size());
  for (std::size_t i = 0; i < actual.outputs.size(); ++i) {
    ASSERT_EQ(actual.outputs[i].sizes(), expected.outputs[i].sizes());
    EXPECT_LT(relative_error(actual.outputs[i], expected.outputs[i]), tolerance) << "output " << i;
  }
  for (std::size_t i = 0; i < actual.gradients.size(); ++i) {
    ASSERT_TRUE(actual.gradients[i].defined()) << "gradient " << i;
    EXPECT_LT(relative_error(actual.gradients[i], expected.gradients[i]), tolerance) << "gradient " << i;
  }
}

class OpsOnGpu : public WorkerStreamTest {
 protected:
  // Attention in float uses LibTorch's products, which need it to be deterministic.
  static void SetUpTestSuite() { setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 1); }

  static void expect_like_the_cpu(const Case& c, double bfloat16_tolerance = kBfloat16Tolerance) {
    const Results on_cpu = run(c, at::kCPU, at::kFloat), in_float = run(c, at::kCUDA, at::kFloat);
    {
      SCOPED_TRACE("float");
      expect_alike(in_float, on_cpu, kFloatTolerance);
    }
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
      SCOPED_TRACE(c10::toString(type));
      // Both have the same rounded numbers, so that only the operation rounds.
      Case rounded = c;
      for (auto* list : {&rounded.inputs, &rounded.parameters}) {
        for (at::Tensor& x : *list) x = x.to(type).to(at::kFloat);
      }
      expect_alike(run(c, at::kCUDA, type), run(rounded, at::kCUDA, at::kFloat), bfloat16_tolerance);
    }
  }

  static void expect_same_bits_every_time(const Case& c) {
    const Results first = run(c, at::kCUDA, at::kBFloat16);
    for (int time = 0; time < 3; ++time) {
      const Results again = run(c, at::kCUDA, at::kBFloat16);
      for (std::size_t i = 0; i < first.gradients.size(); ++i)
        EXPECT_TRUE(at::equal(again.gradients[i], first.gradients[i])) << "gradient " << i;
    }
  }
};

}  // namespace twobw::models
