// Checks of an operation: values and gradients against a formula, gradient accumulation, finite differences.
#pragma once

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tensors.h"

namespace twobw::models {

using Inputs = std::vector<at::Tensor>;
using Operation = std::function<at::Tensor(const Inputs&)>;

inline Inputs leaves(const Inputs& inputs, at::ScalarType type = at::kFloat) {
  Inputs out;
  for (const at::Tensor& input : inputs) out.push_back(leaf(input, type));
  return out;
}

// A sum of the outputs with fixed random factors, so that every output's gradient is its own.
inline at::Tensor weighted_sum(const at::Tensor& out) {
  return out.dim() == 0 ? out : (out * normal(out.sizes(), 99).to(out.scalar_type())).sum();
}

inline Inputs gradients(const Operation& operation, const Inputs& inputs) {
  torch::autograd::backward({weighted_sum(operation(inputs))}, {});
  Inputs out;
  for (const at::Tensor& input : inputs) out.push_back(input.grad());
  return out;
}

// Values and gradients of `operation` against those of `reference`, plain tensor operations in double.
inline void expect_agrees(const Operation& operation, const Operation& reference, const Inputs& numbers) {
  const Inputs inputs = leaves(numbers), exact = leaves(numbers, at::kDouble);
  expect_close(operation(inputs), reference(exact), 2e-6);
  const Inputs actual = gradients(operation, inputs), expected = gradients(reference, exact);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    SCOPED_TRACE("gradient of input " + std::to_string(i));
    expect_close(actual[i], expected[i], 5e-6);
  }
}

// The gradient of parameter `which` is added in place to an existing gradient.
inline void expect_accumulates(const Operation& operation, const Inputs& numbers, std::size_t which) {
  const at::Tensor own = gradients(operation, leaves(numbers))[which];
  const Inputs inputs = leaves(numbers);
  at::Tensor buffer = at::ones_like(own);
  inputs[which].mutable_grad() = buffer;
  gradients(operation, inputs);
  gradients(operation, inputs);
  EXPECT_EQ(inputs[which].grad().data_ptr(), buffer.data_ptr()) << "input " << which << " got a new gradient";
  expect_close(buffer, own * 2 + 1, 1e-6);
}

// The slope along a few coordinates of each input, by central differences.
inline void expect_matches_differences(const Operation& operation, const Inputs& numbers) {
  constexpr double kStep = 1e-2;
  const Inputs slopes = gradients(operation, leaves(numbers));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    for (std::int64_t place : {std::int64_t{0}, numbers[i].numel() / 2, numbers[i].numel() - 1}) {
      const auto value_at = [&](double step) {
        Inputs moved = leaves(numbers);
        moved[i].mutable_data_ptr<float>()[place] += static_cast<float>(step);
        at::NoGradGuard no_grad;
        return weighted_sum(operation(moved).to(at::kDouble)).item<double>();
      };
      const double slope = (value_at(kStep) - value_at(-kStep)) / (2 * kStep);
      EXPECT_NEAR(slopes[i].reshape(-1)[place].item<double>(), slope, 1e-3 * std::max(1.0, std::abs(slope)))
          << "input " << i << ", element " << place;
    }
  }
}

}  // namespace twobw::models
