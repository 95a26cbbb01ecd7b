#include "transport/replica_group.h"

#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <vector>

#include "transport/group.h"

namespace twobw::transport {
namespace {

using Seconds = std::chrono::duration<double>;

at::Tensor of(std::vector<float> values) {
  return at::tensor(values);
}

std::vector<Contribution> contributions(const std::vector<std::vector<float>>& gradients) {
  std::vector<Contribution> all;
  for (const auto& gradient : gradients) all.push_back({.gradient = of(gradient)});
  return all;
}

TEST(ReplicaGroup, HandsEverythingToTheLastInTheOrderOfTheReplicas) {
  Hub hub(Seconds(60));
  ReplicaGroup group(hub, 3);
  EXPECT_TRUE(group.contribute(0, 2, {of({3}), 30}).empty());
  EXPECT_TRUE(group.contribute(0, 0, {of({1}), 10}).empty());
  const auto all = group.contribute(0, 1, {of({2}), 20});
  ASSERT_EQ(all.size(), 3u);
  for (int replica = 0; replica < 3; ++replica) {
    EXPECT_EQ(all[replica].gradient.item<float>(), static_cast<float>(replica + 1));
    EXPECT_EQ(all[replica].loss, 10.0 * (replica + 1));
  }
}

TEST(ReplicaGroup, AloneOneIsTheLastAtOnce) {
  Hub hub(Seconds(60));
  ReplicaGroup group(hub, 1);
  for (int update = 0; update < 3; ++update) EXPECT_EQ(group.contribute(update, 0, {of({1})}).size(), 1u);
}

// A fast replica contributes to the next update before a slow one has come to this one.
TEST(ReplicaGroup, KeepsUpdatesApart) {
  Hub hub(Seconds(60));
  ReplicaGroup group(hub, 2);
  EXPECT_TRUE(group.contribute(0, 0, {of({1})}).empty());
  EXPECT_TRUE(group.contribute(1, 0, {of({10})}).empty());
  const auto first = group.contribute(0, 1, {of({2})});
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].gradient.item<float>(), 1);
  const auto second = group.contribute(1, 1, {of({20})});
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[0].gradient.item<float>(), 10);
}

TEST(ReplicaGroupDeathTest, NobodyContributesTwice) {
  Hub hub(Seconds(60));
  ReplicaGroup group(hub, 3);
  group.contribute(4, 1, {of({1})});
  EXPECT_DEATH(group.contribute(4, 1, {of({1})}), "replica 1 contributed twice to update 4");
}

// (1 + 1e8) - 1e8 is 0 in fp32 and 1 + (1e8 - 1e8) is 1: the order can be seen.
TEST(ReplicaSum, IsInTheOrderOfTheReplicasWhoeverMakesIt) {
  const std::vector<std::vector<float>> gradients = {{1.0f, 1e8f}, {1e8f, -1e8f}, {-1e8f, 1.0f}};
  for (int own = 0; own < 3; ++own) {
    const auto all = contributions(gradients);
    sum_into(own, all);
    EXPECT_TRUE(all[own].gradient.equal(of({0.0f, 1.0f}))) << own << ": " << all[own].gradient;
  }
}

TEST(ReplicaSum, IsSharedWithAllOthers) {
  for (int own = 0; own < 4; ++own) {
    const auto all = contributions({{1, 10}, {2, 20}, {3, 30}, {4, 40}});
    sum_into(own, all);
    share_from(own, all);
    for (const Contribution& contribution : all) EXPECT_TRUE(contribution.gradient.equal(of({10, 100})));
  }
}

TEST(ReplicaSum, OfOneIsItself) {
  const auto all = contributions({{-0.0f, 3}});
  sum_into(0, all);
  share_from(0, all);
  EXPECT_TRUE(all[0].gradient.equal(of({0, 3})));
  EXPECT_TRUE(std::signbit(all[0].gradient[0].item<float>()));  // not so much as a zero is added
}

// As the workers use it: contribute, go on with the other buffer, and take the sum when the norms are there.
TEST(ReplicaSum, EveryReplicaFindsItInItsOwnBuffer) {
  constexpr int kReplicas = 3, kUpdates = 60;
  Hub hub(Seconds(60));
  ReplicaGroup group(hub, kReplicas);
  StageGroup norms(hub, 1, kReplicas);
  std::vector<std::future<bool>> replicas;
  for (int replica = 0; replica < kReplicas; ++replica) {
    replicas.push_back(std::async(std::launch::async, [&, replica] {
      const std::vector<at::Tensor> buffers = {at::zeros(100), at::zeros(100)};
      bool right = true;
      const auto take = [&](int update) {
        norms.collect(update);
        right = buffers[update % 2].equal(at::full(100, 3.0f * static_cast<float>(update) + 3)) && right;
        buffers[update % 2].zero_();
      };
      for (int update = 0; update < kUpdates; ++update) {
        buffers[update % 2].add_(static_cast<float>(update + replica));
        const auto all = group.contribute(update, replica, {buffers[update % 2]});
        if (!all.empty()) {
          sum_into(replica, all);
          share_from(replica, all);
          norms.contribute(update, 0, {});
        }
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
