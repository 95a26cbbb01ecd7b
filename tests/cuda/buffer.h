// GPU memory for tests, and comparisons; tests are skipped without a GPU.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace twobw {

inline bool has_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

// Skips the test without a GPU; its kernels have been compiled at least.
class CudaTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "no GPU here";
  }
  void TearDown() override {
    if (!has_gpu()) return;
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << cudaGetErrorString(cudaGetLastError());
  }
};

template <typename T>
class Buffer {
 public:
  explicit Buffer(std::size_t size) : size_(size) {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&data_), std::max<std::size_t>(1, size) * sizeof(T)),
              cudaSuccess);
    EXPECT_EQ(cudaMemset(data_, 0, size * sizeof(T)), cudaSuccess);
  }
  explicit Buffer(const std::vector<T>& values) : Buffer(values.size()) {
    EXPECT_EQ(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~Buffer() { cudaFree(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* data() const { return data_; }
  void write(const std::vector<T>& values) {
    ASSERT_EQ(values.size(), size_);
    EXPECT_EQ(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
  }
  std::vector<T> read() const {
    std::vector<T> values(size_);
    EXPECT_EQ(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

inline std::vector<float> normal(std::size_t count, unsigned seed, float scale = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> distribution(0, scale);
  std::vector<float> values(count);
  for (float& value : values) value = distribution(engine);
  return values;
}

template <typename T>
std::vector<T> rounded(const std::vector<float>& values) {
  std::vector<T> result;
  for (const float value : values) result.push_back(static_cast<T>(value));
  return result;
}
template <typename T>
std::vector<float> widened(const std::vector<T>& values) {
  std::vector<float> result;
  for (const T value : values) result.push_back(static_cast<float>(value));
  return result;
}

// The values after rounding to T, in double.
template <typename T>
std::vector<double> seen(const std::vector<float>& values) {
  std::vector<double> result;
  for (const T value : rounded<T>(values)) result.push_back(static_cast<double>(static_cast<float>(value)));
  return result;
}

// Relative to the largest of the expected numbers, or to `magnitude`, that of the terms they are sums of.
template <typename T>
constexpr float kRounding = sizeof(T) == 2 ? 1e-2f : 2e-6f;

inline void expect_near(const std::vector<float>& actual, const std::vector<double>& expected,
                        double tolerance, double magnitude = 1e-30) {
  ASSERT_EQ(actual.size(), expected.size());
  double largest = magnitude;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], tolerance * largest) << "at " << i;
}

}  // namespace twobw
