#include "engine/models/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

namespace twobw::models {
namespace {

constexpr double kTolerance = 2e-6;

// `n` numbers from low to high, shuffled so that neighbours in memory are not neighbours in size.
std::vector<float> spread(double low, double high, std::size_t n) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    values[i] = static_cast<float>(low + (high - low) * static_cast<double>(i) / static_cast<double>(n - 1));
  }
  std::mt19937 bits(1);
  for (std::size_t i = n; i > 1; --i) std::swap(values[i - 1], values[bits() % i]);
  return values;
}

struct Exact {
  double loss;
  std::vector<double> softmax;
};

Exact softmax_cross_entropy_in_double(const std::vector<float>& logits, std::int64_t target) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  std::vector<double> softmax;
  for (float logit : logits) softmax.push_back(std::exp(logit - top));
  for (double value : softmax) total += value;
  for (double& value : softmax) value /= total;
  return {std::log(total) + top - logits[target], softmax};
}

TEST(ModelKernels, SoftmaxIsAccurateOverTheWholeRangeOfTheExponential) {
  for (std::size_t classes : {1000, 1009}) {  // whole vectors, and a rest
    std::vector<float> row = spread(-86.0, 0.0, classes);
    const std::int64_t target = 3;
    const Exact exact = softmax_cross_entropy_in_double(row, target);
    double loss = 0;
    softmax_cross_entropy(row.data(), &target, &loss, 1, static_cast<std::int64_t>(classes), 1.0f);
    EXPECT_NEAR(loss, exact.loss, kTolerance * exact.loss);
    for (std::size_t i = 0; i < classes; ++i) {
      const double expected = exact.softmax[i] - (static_cast<std::int64_t>(i) == target);
      ASSERT_NEAR(row[i] / expected, 1.0, kTolerance) << "class " << i;
    }
  }
}

TEST(ModelKernels, TheLossIsAccurateForManyClasses) {
  std::vector<float> row = spread(-3.0, 3.0, 50'257);
  for (std::int64_t target : {0, 777, 50'256}) {
    std::vector<float> logits = row;
    const double expected = softmax_cross_entropy_in_double(row, target).loss;
    double loss = 0;
    softmax_cross_entropy(logits.data(), &target, &loss, 1, 50'257, 0.0f);
    EXPECT_NEAR(loss, expected, kTolerance * expected);
  }
}

TEST(ModelKernels, EveryRowHasItsTargetAndLoss) {
  constexpr std::int64_t kRows = 5, kClasses = 21;
  const std::vector<float> logits = spread(-4.0, 4.0, kRows * kClasses);
  const std::vector<std::int64_t> targets = {0, 20, 7, 15, 16};
  std::vector<float> gradient = logits;
  std::vector<double> loss(kRows);
  softmax_cross_entropy(gradient.data(), targets.data(), loss.data(), kRows, kClasses, 0.25f);
  for (std::int64_t row = 0; row < kRows; ++row) {
    const std::vector<float> own(logits.begin() + row * kClasses, logits.begin() + (row + 1) * kClasses);
    const Exact exact = softmax_cross_entropy_in_double(own, targets[row]);
    EXPECT_NEAR(loss[row], exact.loss, 1e-6);
    for (std::int64_t i = 0; i < kClasses; ++i) {
      EXPECT_NEAR(gradient[row * kClasses + i], 0.25 * (exact.softmax[i] - (i == targets[row])), 1e-7);
    }
  }
}

TEST(ModelKernels, HugeLogitsStayFinite) {
  for (float size : {1e4f, 1e30f}) {
    std::vector<float> row = {-size, size, 0, size / 2, -size / 2};
    const std::int64_t target = 3;
    double loss = 0;
    softmax_cross_entropy(row.data(), &target, &loss, 1, 5, 1.0f);
    EXPECT_NEAR(loss / (size / 2), 1.0, 1e-6);
    EXPECT_FLOAT_EQ(row[1], 1.0f);
    EXPECT_FLOAT_EQ(row[3], -1.0f);
    EXPECT_NEAR(row[0], 0.0f, 1e-30f);
  }
}

TEST(ModelKernels, ALogitThatIsNotFiniteIsReportedWhereverItLies) {
  constexpr std::int64_t kClasses = 37, kTarget = 20;
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (std::int64_t where : {0, 5, 16, 20, 31, 36}) {
      std::vector<float> row = spread(-1.0, 1.0, kClasses);
      row[where] = bad;
      double loss = 0;
      softmax_cross_entropy(row.data(), &kTarget, &loss, 1, kClasses, 1.0f);
      EXPECT_TRUE(std::isnan(loss)) << bad << " at " << where;
      EXPECT_TRUE(std::isnan(row[3])) << "the gradient must not look sound";
    }
  }
}

TEST(ModelKernels, ATargetThatCannotBeIsReported) {
  std::vector<float> row = spread(-1.0, 1.0, 20);
  row[7] = -std::numeric_limits<float>::infinity();
  std::vector<float> other = row;
  const std::int64_t target = 7, likely = 3;
  double loss = 0;
  softmax_cross_entropy(row.data(), &target, &loss, 1, 20, 1.0f);
  EXPECT_FALSE(std::isfinite(loss));
  EXPECT_TRUE(std::isnan(row[3]));
  softmax_cross_entropy(other.data(), &likely, &loss, 1, 20, 1.0f);  // to rule out another is sound
  EXPECT_TRUE(std::isfinite(loss));
  EXPECT_NEAR(other[7], 0.0f, 1e-30f);
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

// x (1 + tanh u) / 2 as x sigmoid(2 u), without cancellation.
double tanh_gelu(double x) {
  return x * sigmoid(2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x));
}

double tanh_gelu_slope(double x) {
  const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  const double slope = std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x);
  return sigmoid(2 * u) + x * 2 * sigmoid(2 * u) * sigmoid(-2 * u) * slope;
}

double erf_gelu(double x) {
  return x * 0.5 * std::erfc(-x / std::numbers::sqrt2);
}

double erf_gelu_slope(double x) {
  const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
  return 0.5 * std::erfc(-x / std::numbers::sqrt2) + x * density;
}

struct Gelu {
  const char* name;
  decltype(&gelu_forward) forward;
  decltype(&gelu_backward) backward;
  double (*exact)(double x);
  double (*slope)(double x);
};
constexpr Gelu kGelus[] = {{"tanh", gelu_forward, gelu_backward, tanh_gelu, tanh_gelu_slope},
                           {"erf", erf_gelu_forward, erf_gelu_backward, erf_gelu, erf_gelu_slope}};

// The relative error where gelu is large; the absolute one far to the left, where it vanishes.
TEST(ModelKernels, GeluIsAccurate) {
  const std::vector<float> right = spread(-2.0, 30.0, 20'011), left = spread(-100.0, -2.0, 20'011);
  std::vector<float> out(right.size());
  for (const Gelu& gelu : kGelus) {
    SCOPED_TRACE(gelu.name);
    gelu.forward(right.data(), out.data(), static_cast<std::int64_t>(out.size()));
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (right[i] == 0) continue;
      ASSERT_NEAR(out[i] / gelu.exact(right[i]), 1.0, kTolerance) << "at " << right[i];
    }
    gelu.forward(left.data(), out.data(), static_cast<std::int64_t>(out.size()));
    for (std::size_t i = 0; i < out.size(); ++i)
      ASSERT_NEAR(out[i], gelu.exact(left[i]), 1e-7) << "at " << left[i];
  }
}

TEST(ModelKernels, SlopeOfGeluIsAccurate) {
  const std::vector<float> x = spread(-30.0, 30.0, 20'011);
  const std::vector<float> grad_out = spread(0.5, 2.0, x.size());
  std::vector<float> grad_x(x.size());
  for (const Gelu& gelu : kGelus) {
    SCOPED_TRACE(gelu.name);
    gelu.backward(x.data(), grad_out.data(), grad_x.data(), static_cast<std::int64_t>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_NEAR(grad_x[i] / grad_out[i], gelu.slope(x[i]), kTolerance) << "at " << x[i];
  }
}

TEST(ModelKernels, GeluOfNanIsNan) {
  const std::vector<float> x(20, std::numeric_limits<float>::quiet_NaN());
  std::vector<float> out(20);
  for (const Gelu& gelu : kGelus) {
    gelu.forward(x.data(), out.data(), 20);
    for (float value : out) EXPECT_TRUE(std::isnan(value));
  }
}

}  // namespace
}  // namespace twobw::models
