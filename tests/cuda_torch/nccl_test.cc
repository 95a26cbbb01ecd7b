// NCCL as far as the GPUs here can show it: on one the sums of a single rank, on more those over all of them.
// What its links do is in nccl_link_test.cc.
#include "transport/nccl.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <chrono>
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

bool equal_bits(const Tensor& a, const Tensor& b) {
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

TEST_F(NcclOnGpu, ALinkToAGpuThatIsNotThereIsRefusedInASentence) {
  Hub hub(std::chrono::duration<double>(60));
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
    EXPECT_TRUE(equal_bits(gradient, expected_gradient));
    EXPECT_TRUE(equal_bits(norms, expected_norms));
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
