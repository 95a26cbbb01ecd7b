// A GpuPath for tests without a GPU: both ends are one object.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "engine/transport/gpu_paths.h"

namespace twobw::transport {

// Sent tensors wait until their header has been received.
class PathInMemory final : public GpuPath {
 public:
  void await(const device::StreamEvent& ready) override { EXPECT_EQ(ready, nullptr); }
  void send(Tensors tensors) override {
    for (at::Tensor& tensor : tensors) tensor = tensor.clone();
    std::lock_guard lock(mutex_);
    sent_.push_back(std::move(tensors));
    changed_.notify_one();
  }
  Message receive(const TensorShapes& shapes) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !sent_.empty(); });
    Message message{.tensors = std::move(sent_.front()), .ready = {}};
    sent_.pop_front();
    EXPECT_EQ(shapes_of(message.tensors), shapes);
    return message;
  }
  Tensors take(Message message) const override { return std::move(message.tensors); }
  void drain() override { ++drained_; }

  int drained() const { return drained_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Tensors> sent_;
  std::atomic<int> drained_ = 0;
};

}  // namespace twobw::transport
