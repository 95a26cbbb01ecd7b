#include "engine/transport/replica_sum.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <future>
#include <memory>
#include <vector>

#include "engine/transport/group.h"

namespace twobw::transport {
namespace {

using Seconds = std::chrono::duration<double>;

at::Tensor numbers(std::vector<float> values) {
  return at::tensor(values);
}

std::vector<Contribution> contributions(const std::vector<std::vector<float>>& gradients) {
  std::vector<Contribution> all;
  for (const auto& gradient : gradients) all.push_back({.gradient = numbers(gradient)});
  return all;
}

std::shared_ptr<ReplicaSum> sum_of(const std::vector<Contribution>& all) {
  return sums_on_cores()(all);
}

// Sums the buffers of `all` on one thread.
void add_up(const std::vector<Contribution>& all) {
  EXPECT_TRUE(sum_of(all)->advance());
}

TEST(ReplicaGroup, HandsTheSumToTheLastAndToWhoeverAwaitsIt) {
  WaitHub hub(Seconds(60));
  ReplicaGroup group(hub, 3);
  EXPECT_EQ(group.contribute(0, 2, {numbers({3})}), nullptr);
  EXPECT_EQ(group.contribute(0, 0, {numbers({1})}), nullptr);
  const auto sum = group.contribute(0, 1, {numbers({2})});
  ASSERT_NE(sum, nullptr);
  for (int replica = 0; replica < 3; ++replica) EXPECT_EQ(group.await(0), sum);
}

TEST(ReplicaGroupDeathTest, NobodyContributesTwice) {
  WaitHub hub(Seconds(60));
  ReplicaGroup group(hub, 3);
  group.contribute(4, 1, {numbers({1})});
  EXPECT_DEATH(group.contribute(4, 1, {numbers({1})}), "replica 1 contributed twice to update 4");
}

// (1 + 1e8) - 1e8 is 0 in fp32 and 1 + (1e8 - 1e8) is 1: the order can be seen.
TEST(ReplicaSum, IsInTheOrderOfTheReplicasInEveryBuffer) {
  const auto all = contributions({{1.0f, 1e8f}, {1e8f, -1e8f}, {-1e8f, 1.0f}});
  add_up(all);
  for (const Contribution& contribution : all)
    EXPECT_TRUE(contribution.gradient.equal(numbers({0.0f, 1.0f}))) << contribution.gradient;
}

TEST(ReplicaSum, SharesWhatOneReplicaChangedAfterwards) {
  const auto all = contributions({{1, 10, 5}, {2, 20, 5}, {3, 30, 5}});
  const auto sum = sum_of(all);
  EXPECT_TRUE(sum->advance());
  sum->then(1, [&] {
    all[1].gradient.add_(numbers({100, 100, 100}));
    sum->share(1, 1, 1);
  });
  EXPECT_TRUE(all[0].gradient.equal(numbers({6, 160, 15})));
  EXPECT_TRUE(all[1].gradient.equal(numbers({106, 160, 115})));
  EXPECT_TRUE(all[2].gradient.equal(numbers({6, 160, 15})));
}

TEST(ReplicaSum, OfOneIsItself) {
  const auto all = contributions({{-0.0f, 3}});
  add_up(all);
  EXPECT_TRUE(all[0].gradient.equal(numbers({0, 3})));
  EXPECT_TRUE(std::signbit(all[0].gradient[0].item<float>()));  // no zero is added
}

// Large enough that every thread gets some of it; exactly one ends last, and finds the whole sum.
TEST(ReplicaSum, IsMadeByAllThatHelp) {
  constexpr int kThreads = 4;
  constexpr std::int64_t kSize = (5 << 18) + 77;
  const auto values = [](int replica) {
    return at::arange(kSize, at::kFloat) * (0.1f * static_cast<float>(replica) + 1);
  };
  std::vector<Contribution> all;
  at::Tensor expected = at::zeros(kSize);
  for (int replica = 0; replica < 3; ++replica) {
    all.push_back({.gradient = values(replica)});
    expected = replica == 0 ? values(0) : expected + values(replica);
  }
  const auto sum = sum_of(all);
  std::atomic<int> last = 0, wrong = 0;
  std::vector<std::future<void>> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.push_back(std::async(std::launch::async, [&] {
      if (!sum->advance()) return;
      ++last;
      for (const Contribution& contribution : all) wrong += !contribution.gradient.equal(expected);
    }));
  }
  for (auto& thread : threads) thread.get();
  EXPECT_EQ(last, 1);
  EXPECT_EQ(wrong, 0);
}

// As workers do: contribute, continue with the other buffer, and take the sum once the norms have arrived.
TEST(ReplicaSum, EveryReplicaFindsItInItsOwnBuffer) {
  constexpr int kReplicas = 3, kUpdates = 60;
  WaitHub hub(Seconds(60));
  ReplicaGroup group(hub, kReplicas);
  NormExchange norms(hub, 1, kReplicas);
  std::vector<std::future<bool>> replicas;
  for (int replica = 0; replica < kReplicas; ++replica) {
    replicas.push_back(std::async(std::launch::async, [&, replica] {
      const std::vector<at::Tensor> buffers = {at::zeros(100), at::zeros(100)};
      bool right = true;
      const auto help = [&](int update, ReplicaSum& sum) {
        if (sum.advance()) norms.contribute(update, 0, Norms{});
      };
      const auto take = [&](int update) {
        help(update, *group.await(update));
        norms.collect(update);
        right = buffers[update % 2].equal(at::full(100, 3.0f * static_cast<float>(update) + 3)) && right;
        buffers[update % 2].zero_();
      };
      for (int update = 0; update < kUpdates; ++update) {
        buffers[update % 2].add_(static_cast<float>(update + replica));
        if (const auto sum = group.contribute(update, replica, {buffers[update % 2]})) help(update, *sum);
        if (update > 0) take(update - 1);
      }
      take(kUpdates - 1);
      return right;
    }));
  }
  for (auto& replica : replicas) EXPECT_TRUE(replica.get());
}

}  // namespace
}  // namespace twobw::transport
