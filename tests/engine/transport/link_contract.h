// The contract of links, as the test suite Links. A kind of link joins it by
//
//   INSTANTIATE_TYPED_TEST_SUITE_P(Prefix, Links, Kind);
//
// where Kind is a type with
//
//   static std::string missing();                // why it cannot be tested here; empty if it can
//   static device::Device sender(), receiver();  // where the workers at its two ends compute
//   static std::unique_ptr<Link> make(WaitHub&);
//   static constexpr bool kHandsOver;            // the tensor itself arrives, not a copy
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/device/device.h"
#include "engine/transport/link.h"
#include "engine/transport/wait_hub.h"

namespace twobw::transport {

using Seconds = std::chrono::duration<double>;

// A thread bound to a device that executes tasks in order.
class WorkerThread {
 public:
  WorkerThread(const std::string& name, const device::Device& device)
      : thread_([this, name, device] { work(name, device); }) {}
  ~WorkerThread() { post({}); }

  // The future has the result of the work, or its exception.
  template <typename Work>
  auto start(Work work) {
    auto task = std::make_shared<std::packaged_task<std::invoke_result_t<Work>()>>(std::move(work));
    auto result = task->get_future();
    post([task] { (*task)(); });
    return result;
  }
  // Waits for it.
  template <typename Work>
  auto run(Work work) {
    return start(std::move(work)).get();
  }

 private:
  using Task = std::function<void()>;  // empty: the last

  void post(Task task) {
    {
      std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    posted_.notify_one();
  }
  Task next() {
    std::unique_lock lock(mutex_);
    posted_.wait(lock, [this] { return !tasks_.empty(); });
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    return task;
  }
  void work(const std::string& name, const device::Device& device) {
    const device::DeviceBinding binding(name, device);
    while (const Task task = next()) task();
    binding.clock().await(binding.clock().now());  // waits for the device
  }

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<Task> tasks_;
  std::jthread thread_;
};

inline at::TensorOptions options_at(const device::Device& device, at::ScalarType type) {
  const auto options = at::TensorOptions(type);
  if (!device.gpu) return options;
  return options.device(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device.gpu->gpu)));
}

inline Tensors number(double value) {
  return {at::full({3}, value)};
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  const at::Tensor x = a.cpu().contiguous(), y = b.cpu().contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

inline bool same_bits(const Tensors& a, const Tensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const at::Tensor& x, const at::Tensor& y) { return same_bits(x, y); });
}

// Tests have tensors on the CPU; links carry them on the workers' devices.
template <typename Kind>
class Links : public testing::Test {
 protected:
  static constexpr Seconds kLong{60};  // only a failing test waits so long

  void SetUp() override {
    const std::string missing = Kind::missing();
    if (!missing.empty()) GTEST_SKIP() << missing;
    sender_ = std::make_unique<WorkerThread>("sender", Kind::sender());
    receiver_ = std::make_unique<WorkerThread>("receiver", Kind::receiver());
    connect(kLong);
  }
  void TearDown() override {
    sender_.reset();
    receiver_.reset();
  }

  // Called again by tests that need another timeout.
  void connect(Seconds timeout) {
    link_.reset();
    hub_ = std::make_unique<WaitHub>(timeout);
    link_ = Kind::make(*hub_);
  }

  WorkerThread& sender() { return *sender_; }
  WorkerThread& receiver() { return *receiver_; }
  Link& link() { return *link_; }
  WaitHub& hub() { return *hub_; }

  static at::TensorOptions at_sender(at::ScalarType type = at::kFloat) {
    return options_at(Kind::sender(), type);
  }
  static at::TensorOptions at_receiver(at::ScalarType type = at::kFloat) {
    return options_at(Kind::receiver(), type);
  }

  void send(const Tag& tag, const Tensors& tensors) {
    sender().run([&] {
      Tensors there;
      for (const at::Tensor& tensor : tensors) there.push_back(tensor.to(at_sender().device()));
      link().send(tag, std::move(there));
    });
  }
  Tensors receive(const Tag& tag) {
    return receiver().run([&] { return receive_here(tag); });
  }
  // By the receiver's thread.
  Tensors receive_here(const Tag& tag) {
    Tensors received = link().receive(tag);
    for (at::Tensor& tensor : received) {
      EXPECT_EQ(tensor.device(), at_receiver().device()) << describe(tag);
      tensor = tensor.cpu();
    }
    return received;
  }

 private:
  std::unique_ptr<WaitHub> hub_;
  std::unique_ptr<Link> link_;
  std::unique_ptr<WorkerThread> sender_, receiver_;
};

TYPED_TEST_SUITE_P(Links);

TYPED_TEST_P(Links, CarryTensorsInOrder) {
  for (int k = 0; k < 4; ++k) this->send({Tag::Kind::Activation, k}, number(k));
  for (int k = 0; k < 4; ++k) {
    EXPECT_TRUE(same_bits(this->receive({Tag::Kind::Activation, k}), number(k))) << k;
  }
}

TYPED_TEST_P(Links, FindATensorByItsTagInAnyOrder) {
  const std::vector<Tag> tags = {{Tag::Kind::Activation, 5},
                                 {Tag::Kind::Activation, 4},
                                 {Tag::Kind::Gradient, 5},
                                 {Tag::Kind::Evaluation, 5},
                                 {Tag::Kind::TiedGradient, 5}};
  for (std::size_t i = 0; i < tags.size(); ++i) this->send(tags[i], number(static_cast<double>(i)));
  for (std::size_t i = tags.size(); i-- > 0;) {
    EXPECT_TRUE(same_bits(this->receive(tags[i]), number(static_cast<double>(i)))) << describe(tags[i]);
  }
}

TYPED_TEST_P(Links, LetATagComeAgainOnceItWasReceived) {
  for (double value : {1.0, 2.0}) {
    this->send({Tag::Kind::Evaluation, 0}, number(value));
    EXPECT_TRUE(same_bits(this->receive({Tag::Kind::Evaluation, 0}), number(value)));
  }
}

// Several tensors under one tag, as at a stage boundary within a residual branch: odd sizes, a transposed
// matrix, an empty tensor, NaN.
TYPED_TEST_P(Links, CarryEveryTypeAndShape) {
  const at::Tensor numbers = at::arange(1, 61, at::kFloat).reciprocal();
  const Tensors sent = {numbers,
                        numbers.view({3, 20}).to(at::kBFloat16),
                        numbers.view({5, 3, 4}).to(at::kDouble) / 3,
                        at::arange(-7, 10, at::kLong),
                        at::arange(13, at::kInt) > 4,
                        numbers.view({6, 10}).t(),
                        at::empty({0, 4}),
                        at::full({3}, std::nan("")),
                        at::full({}, 0.1, at::kDouble)};
  this->send({Tag::Kind::Activation, 0}, sent);
  const Tensors received = this->receive({Tag::Kind::Activation, 0});
  ASSERT_EQ(received.size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    EXPECT_TRUE(same_bits(received[i], sent[i])) << "tensor " << i;
  }
}

// Both sides free and reuse memory without waiting for a device. Tensors that were handed over are kept
// until they have been used.
TYPED_TEST_P(Links, CarryManyMessagesBetweenThreads) {
  constexpr int kMany = 300;
  const auto size_of = [](int k) { return 1000 + 37 * (k % 11); };
  auto sending = this->sender().start([&] {
    for (int k = 0; k < kMany; ++k) {
      const at::Tensor numbers = at::full({size_of(k)}, k, this->at_sender(at::kLong));
      this->link().send({Tag::Kind::Gradient, k}, {numbers, numbers + 1});
    }
  });
  const auto wrong = this->receiver().run([&] {
    at::Tensor differing = at::zeros({}, this->at_receiver(at::kLong));
    std::vector<Tensors> kept;
    for (int k = 0; k < kMany; ++k) {
      const Tensors received = this->link().receive({Tag::Kind::Gradient, k});
      if (TypeParam::kHandsOver) kept.push_back(received);
      if (received.size() != 2 || received[0].numel() != size_of(k)) return std::int64_t{-1};
      differing += received[0].ne(k).sum() + received[1].ne(k + 1).sum();
    }
    return differing.template item<std::int64_t>();
  });
  sending.get();
  EXPECT_EQ(wrong, 0);
}

TYPED_TEST_P(Links, CopyNothingWhereTheyHandOver) {
  if (!TypeParam::kHandsOver) GTEST_SKIP() << "this kind copies";
  const void* data = this->sender().run([&] {
    at::Tensor sent = at::full({3}, 1.0, this->at_sender());
    const void* place = sent.data_ptr();
    this->link().send({Tag::Kind::Activation, 0}, {std::move(sent)});
    return place;
  });
  this->receiver().run([&] {
    const at::Tensor received = this->link().receive({Tag::Kind::Activation, 0}).front();
    EXPECT_EQ(received.data_ptr(), data);
    EXPECT_EQ(received.use_count(), 1u);  // and keep nothing
  });
}

TYPED_TEST_P(Links, MakeAReceiverWaitForTheSender) {
  std::latch about_to_wait(1);
  auto received = this->receiver().start([&] {
    about_to_wait.count_down();
    return this->receive_here({Tag::Kind::Gradient, 3});
  });
  about_to_wait.wait();
  this->send({Tag::Kind::Gradient, 2}, number(2));  // not the one it waits for
  this->send({Tag::Kind::Gradient, 3}, number(3));
  EXPECT_TRUE(same_bits(received.get(), number(3)));
}

TYPED_TEST_P(Links, NameTheTagThatTimedOut) {
  this->connect(Seconds(0.01));
  this->send({Tag::Kind::Activation, 6}, number(6));
  try {
    this->receive({Tag::Kind::Activation, 7});
    FAIL() << "received what was never sent";
  } catch (const WaitTimeout& error) {
    EXPECT_NE(std::string(error.what()).find("activation of microbatch 7"), std::string::npos)
        << error.what();
  }
  EXPECT_TRUE(same_bits(this->receive({Tag::Kind::Activation, 6}), number(6)));  // the rest still works
}

TYPED_TEST_P(Links, EndTheWaitWhereTheRunIsCancelled) {
  std::latch about_to_wait(1);
  auto waiting = this->receiver().start([&] {
    about_to_wait.count_down();
    return this->receive_here({Tag::Kind::Activation, 0});
  });
  about_to_wait.wait();
  this->hub().cancel();
  EXPECT_THROW(waiting.get(), Cancelled);
  EXPECT_THROW(this->receive({Tag::Kind::Gradient, 0}), Cancelled);  // and those to come
}

REGISTER_TYPED_TEST_SUITE_P(Links, CarryTensorsInOrder, FindATensorByItsTagInAnyOrder,
                            LetATagComeAgainOnceItWasReceived, CarryEveryTypeAndShape,
                            CarryManyMessagesBetweenThreads, CopyNothingWhereTheyHandOver,
                            MakeAReceiverWaitForTheSender, NameTheTagThatTimedOut,
                            EndTheWaitWhereTheRunIsCancelled);

}  // namespace twobw::transport
