// NCCL as far as the GPUs here can show it. On one: a rank that sends to itself, and sums of a single rank.
// On more: the same tests from the first to the second, and over all of them.
#include "transport/nccl.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/gpu_thread.h"
#include "device/stream_event.h"
#include "transport/hub.h"
#include "transport/nccl_group.h"
#include "transport/nccl_link.h"

namespace twobw::transport {
namespace {

using at::Tensor;
using Kind = Tag::Kind;

constexpr std::chrono::duration<double> kLong{60};  // only a failing test waits so long

at::TensorOptions on_gpu(int gpu, at::ScalarType type = at::kFloat) {
  return at::TensorOptions(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(gpu))).dtype(type);
}

// A worker: a thread of its own with a queue of its own.
template <typename Work>
std::future<void> start_worker(int gpu, Work work) {
  return std::async(std::launch::async, [gpu, work] {
    const device::GpuThread binding({.gpu = gpu});
    work();
    c10::cuda::getCurrentCUDAStream().synchronize();
  });
}

// So much work that the queue is still busy with it when the thread goes on.
constexpr int kAdditions = 500;
constexpr std::int64_t kLarge = 1 << 26;

void queue_additions(const Tensor& numbers) {
  for (int i = 0; i < kAdditions; ++i) numbers.add_(1);
}

bool queue_is_busy() {
  return !c10::cuda::getCurrentCUDAStream().query();
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  const Tensor x = a.cpu().contiguous(), y = b.cpu().contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

template <typename Call>
void expect_one_sentence(Call call, const std::string& beginning) {
  try {
    call();
    ADD_FAILURE() << "nothing was wrong";
  } catch (const RunError& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.substr(0, beginning.size()), beginning) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

class NcclOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (device::gpu_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

// The parameter is the receiver's GPU; the first one sends.
class NcclLinks : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (device::gpu_count() == 0) GTEST_SKIP() << "no GPU here";
    if (GetParam() >= device::gpu_count()) GTEST_SKIP() << "one GPU here, and this needs two";
    link_ = nccl_link(hub_, 0, GetParam());
  }

  template <typename Send, typename Receive>
  void run(Send send, Receive receive) {
    auto sender = start_worker(0, send), receiver = start_worker(GetParam(), receive);
    sender.get();
    receiver.get();
  }

  Hub hub_{kLong};
  std::unique_ptr<Link> link_;
};

INSTANTIATE_TEST_SUITE_P(To, NcclLinks, testing::Values(0, 1),
                         [](const auto& info) { return info.param == 0 ? "Itself" : "Another"; });

// What no sum or cast leaves as it is: odd sizes, a transposed matrix, nothing at all, bits that are no
// number.
Tensors various() {
  const Tensor numbers = at::arange(1, 61, at::kFloat).reciprocal();
  return {numbers,
          numbers.view({3, 20}).to(at::kBFloat16),
          numbers.view({5, 3, 4}).to(at::kDouble) / 3,
          at::arange(-7, 10, at::kLong),
          at::arange(13, at::kInt) > 4,
          numbers.view({6, 10}).t(),
          at::empty({0, 4}),
          at::full({3}, std::nan("")),
          at::full({}, 0.1, at::kDouble)};
}

TEST_P(NcclLinks, CarryEveryTypeAndShape) {
  const Tensors expected = various();
  Tensors received;
  run(
      [&] {
        Tensors sent;
        for (const Tensor& tensor : expected) sent.push_back(tensor.to(on_gpu(0).device()));
        link_->send({Kind::Activation, 0}, std::move(sent));
      },
      [&] {
        for (const Tensor& tensor : link_->receive({Kind::Activation, 0})) {
          EXPECT_EQ(tensor.get_device(), GetParam());
          received.push_back(tensor.cpu());
        }
      });
  ASSERT_EQ(received.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(same_bits(received[i], expected[i])) << "tensor " << i;
}

// While both sides free and reuse memory, and nobody waits for a GPU.
TEST_P(NcclLinks, CarryManyMessagesInOrder) {
  constexpr int kMany = 300;
  const auto size_of = [](int k) { return 1000 + 37 * (k % 11); };
  Tensor wrong;
  run(
      [&] {
        for (int k = 0; k < kMany; ++k) {
          Tensor numbers = at::full({size_of(k)}, k, on_gpu(0, at::kLong));
          link_->send({Kind::Gradient, k}, {numbers, numbers + 1});
        }
      },
      [&] {
        Tensor differing = at::zeros({}, on_gpu(GetParam(), at::kLong));
        for (int k = 0; k < kMany; ++k) {
          const Tensors received = link_->receive({Kind::Gradient, k});
          ASSERT_EQ(received.size(), 2u);
          ASSERT_EQ(received[0].numel(), size_of(k));
          differing += received[0].ne(k).sum() + received[1].ne(k + 1).sum();
        }
        wrong = differing.cpu();
      });
  ASSERT_TRUE(wrong.defined());
  EXPECT_EQ(wrong.item<std::int64_t>(), 0);
}

TEST_P(NcclLinks, SendWhatTheSenderHasStillToCompute) {
  bool right = false;
  run(
      [&] {
        const Tensor numbers = at::zeros({kLarge}, on_gpu(0));
        queue_additions(numbers);
        EXPECT_TRUE(queue_is_busy()) << "too little work to show anything";
        link_->send({Kind::Activation, 3}, {numbers});
      },
      [&] {
        const Tensor received = link_->receive({Kind::Activation, 3}).front();
        right = received.eq(kAdditions).all().item<bool>();
      });
  EXPECT_TRUE(right);
}

TEST_P(NcclLinks, FindATensorByItsTagInAnyOrder) {
  std::vector<std::int64_t> received;
  run(
      [&] {
        for (int k = 0; k < 3; ++k)
          link_->send({Kind::Activation, k}, {at::full({2}, k, on_gpu(0, at::kLong))});
      },
      [&] {
        for (const int k : {2, 0, 1})
          received.push_back(link_->receive({Kind::Activation, k}).front()[1].item<std::int64_t>());
      });
  EXPECT_EQ(received, (std::vector<std::int64_t>{2, 0, 1}));
}

TEST_P(NcclLinks, ACancellationEndsTheWait) {
  hub_.cancel();
  EXPECT_THROW(link_->receive({Kind::Activation, 0}), Cancelled);
}

TEST_F(NcclOnGpu, NoThreadWaitsForATransfer) {
  Hub hub(kLong);
  const auto link = nccl_link(hub, 0, 0);
  bool right = false;
  start_worker(0, [&] {
    const Tensor numbers = at::zeros({kLarge}, on_gpu(0));
    // The first transfer makes connections and takes memory.
    link->send({Kind::Activation, 0}, {numbers});
    link->receive({Kind::Activation, 0});
    c10::cuda::getCurrentCUDAStream().synchronize();

    queue_additions(numbers);
    link->send({Kind::Activation, 1}, {numbers});
    const Tensor received = link->receive({Kind::Activation, 1}).front();
    EXPECT_TRUE(queue_is_busy());
    right = received.eq(kAdditions).all().item<bool>();
  }).get();
  EXPECT_TRUE(right);
}

TEST_F(NcclOnGpu, ALinkToAGpuThatIsNotThereIsRefusedInASentence) {
  Hub hub(kLong);
  expect_one_sentence([&] { nccl_link(hub, 0, 99); }, "NCCL: GPUs 0, 99 could not join: ");
}

TEST_F(NcclOnGpu, TheSumOfOneRankIsItsOwnInPlace) {
  start_worker(0, [] {
    NcclGroup group(std::move(Communicator::join({0}).front()));
    const Tensor gradient = at::arange(1, 100'004, on_gpu(0)).reciprocal_();
    const Tensor norms = at::arange(1, 31, on_gpu(0, at::kDouble)).reciprocal_();
    const Tensor expected_gradient = gradient.cpu() + 1, expected_norms = norms.cpu() + 1;
    const void *gradient_place = gradient.const_data_ptr(), *norms_place = norms.const_data_ptr();
    gradient.add_(1);  // queued when the sum is
    norms.add_(1);
    device::await_stream_event(group.sum({gradient, norms}));
    EXPECT_TRUE(same_bits(gradient, expected_gradient));
    EXPECT_TRUE(same_bits(norms, expected_norms));
    EXPECT_EQ(gradient.const_data_ptr(), gradient_place);
    EXPECT_EQ(norms.const_data_ptr(), norms_place);
  }).get();
}

// Of the gradients every rank has a part; of the norms each has its own, and zeros.
TEST_F(NcclOnGpu, EveryRankHasTheSumOfAll) {
  const int ranks = device::gpu_count();
  const ncclUniqueId id = Communicator::make_id();
  std::vector<std::future<void>> workers;
  for (int rank = 0; rank < ranks; ++rank) {
    workers.push_back(start_worker(rank, [ranks, rank, &id] {
      NcclGroup group(std::make_unique<Communicator>(id, ranks, rank));
      const Tensor gradient = at::full({5'000'001}, rank + 1, on_gpu(rank));
      const Tensor norms = at::zeros({ranks}, on_gpu(rank, at::kDouble));
      norms[rank] = rank + 0.1;
      device::await_stream_event(group.sum({gradient, norms}));
      EXPECT_TRUE(gradient.eq(ranks * (ranks + 1) / 2).all().item<bool>());
      for (int other = 0; other < ranks; ++other) EXPECT_EQ(norms[other].item<double>(), other + 0.1);
    }));
  }
  for (auto& worker : workers) worker.get();
}

TEST_F(NcclOnGpu, AGroupThatWasGivenUpSaysSo) {
  start_worker(0, [] {
    NcclGroup group(std::move(Communicator::join({0}).front()));
    const Tensor ones = at::ones({4}, on_gpu(0));
    device::await_stream_event(group.sum({ones}));
    group.cancel();
    group.cancel();
    expect_one_sentence([&] { (void)group.sum({ones}); }, "NCCL: this set of GPUs was given up");
  }).get();
}

TEST_F(NcclOnGpu, ABadRankOrIdIsRefusedInASentence) {
  const ncclUniqueId id = Communicator::make_id();
  expect_one_sentence([&] { Communicator(id, 1, 3); }, "NCCL: rank 3 of 1 could not join: ");
  expect_one_sentence([&] { Communicator(id, 1, -1); }, "NCCL: rank -1 of 1 could not join: ");
  expect_one_sentence([] { Communicator({}, 1, 0); }, "NCCL: rank 0 of 1 has no id to join by");
}

}  // namespace
}  // namespace twobw::transport
