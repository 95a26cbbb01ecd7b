// Made-up tensors and comparisons for the tests of models.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace twobw::models {

// Normal numbers that depend on the seed alone.
inline at::Tensor normal(at::IntArrayRef sizes, std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return at::empty(sizes, at::kFloat).normal_(0, 1, generator);
}

inline at::Tensor random_tokens(at::IntArrayRef sizes, std::int64_t vocab, std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return at::empty(sizes, at::kLong).random_(0, vocab, generator);
}

// A leaf with the same numbers, in the given type.
inline at::Tensor leaf(const at::Tensor& tensor, at::ScalarType type = at::kFloat) {
  return tensor.detach().to(type, /*non_blocking=*/false, /*copy=*/true).set_requires_grad(true);
}

// The largest difference, as a part of the largest expected number.
inline double difference(const at::Tensor& actual, const at::Tensor& expected) {
  const at::Tensor exact = expected.detach().to(at::kDouble);
  const double scale = exact.abs().max().item<double>();
  return (actual.detach().to(at::kDouble) - exact).abs().max().item<double>() / (scale > 0 ? scale : 1.0);
}

inline void expect_close(const at::Tensor& actual, const at::Tensor& expected, double tolerance) {
  ASSERT_TRUE(actual.defined());
  ASSERT_EQ(actual.sizes(), expected.sizes());
  EXPECT_LT(difference(actual, expected), tolerance);
}

}  // namespace twobw::models
