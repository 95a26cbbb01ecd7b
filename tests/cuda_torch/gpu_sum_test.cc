// Sums of replicas on one GPU: in place, and as if each had a GPU of its own.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <future>
#include <vector>

#include "engine/device/clock.h"
#include "engine/device/gpu_thread.h"
#include "engine/transport/group.h"
#include "engine/transport/replica_sum.h"

namespace twobw::transport {
namespace {

constexpr int kReplicas = 3;

class GpuSums : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (device::gpu_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

at::Tensor values(int replica, int update, std::int64_t size) {
  return at::arange(size, at::kFloat).remainder(1009) * static_cast<float>(replica + 1) +
         static_cast<float>(update);
}

// As workers do: each contributes a gradient that is still being computed and continues; one adds to the sum
// and shares the change; all have it in their own buffers once the norms have arrived.
bool run_replica(ReplicaGroup& group, NormExchange& norms, int replica, std::int64_t size) {
  constexpr int kUpdates = 5, kAdditions = 100;
  const device::GpuThread binding({.gpu = 0, .slice = replica, .slices = 4});
  const auto options = at::TensorOptions(at::kCUDA).dtype(at::kFloat);
  const std::vector<at::Tensor> buffers = {at::zeros({size}, options), at::zeros({size}, options)};
  const at::Tensor one = at::ones({1}, options);
  bool right = true;
  const auto help = [&](int update, ReplicaSum& sum) {
    if (!sum.advance()) return;
    sum.then(replica, [&] {
      buffers[update % 2].narrow(0, 1, 2).add_(one);
      sum.share(replica, 1, 2);
      norms.contribute(update, 0, {.on_gpu = one, .ready = device::record_stream_event()});
    });
  };
  const auto take = [&](int update) {
    help(update, *group.await(update));
    for (const Norms& of_stage : norms.collect(update)) device::await_stream_event(of_stage.ready);
    at::Tensor expected = values(0, update, size) + kAdditions;
    for (int other = 1; other < kReplicas; ++other) expected += values(other, update, size) + kAdditions;
    expected.narrow(0, 1, 2).add_(1);
    right = buffers[update % 2].cpu().equal(expected) && right;
    buffers[update % 2].zero_();
  };
  for (int update = 0; update < kUpdates; ++update) {
    const at::Tensor& buffer = buffers[update % 2];
    buffer.copy_(values(replica, update, size));
    for (int i = 0; i < kAdditions; ++i) buffer.add_(1);
    Contribution own{.gradient = buffer, .ready = device::record_stream_event()};
    if (const auto sum = group.contribute(update, replica, std::move(own))) help(update, *sum);
    if (update > 0) take(update - 1);
  }
  take(kUpdates - 1);
  c10::cuda::getCurrentCUDAStream().synchronize();
  return right;
}

TEST_P(GpuSums, AreInEveryBufferOnceTheNormsAreThere) {
  for (const std::int64_t size : {3, 1000, (9 << 20) + 5}) {  // the last in several chunks a part
    WaitHub hub(std::chrono::duration<double>(60));
    ReplicaGroup group(hub, kReplicas, sums_on_gpus(GetParam()));
    NormExchange norms(hub, 1, kReplicas);
    std::vector<std::future<bool>> replicas;
    for (int replica = 0; replica < kReplicas; ++replica)
      replicas.push_back(
          std::async(std::launch::async, [&, replica] { return run_replica(group, norms, replica, size); }));
    for (auto& replica : replicas) EXPECT_TRUE(replica.get()) << size;
  }
}

// With sharded optimizer state: each replica has the sum of its own ranges and of the common ones.
bool run_owner(ReplicaGroup& group, NormExchange& norms, const SumRanges& ranges, int replica) {
  constexpr int kUpdates = 3;
  const std::int64_t size = ranges.back().end();
  const device::GpuThread binding({.gpu = 0, .slice = replica, .slices = 4});
  const at::Tensor buffer = at::zeros({size}, at::TensorOptions(at::kCUDA).dtype(at::kFloat));
  bool right = true;
  const auto help = [&](int update, ReplicaSum& sum) {
    if (!sum.advance()) return;
    sum.then(replica, [&] {
      sum.for_each([&](int owner, const Contribution& own) { norms.contribute(update, owner, own.norms()); });
    });
  };
  for (int update = 0; update < kUpdates; ++update) {
    buffer.copy_(values(replica, update, size));
    Contribution own{.gradient = buffer, .ready = device::record_stream_event(), .norms = [&] {
                       return Norms{.on_gpu = buffer.sum(at::kDouble),
                                    .ready = device::record_stream_event()};
                     }};
    if (const auto sum = group.contribute(update, replica, std::move(own))) help(update, *sum);
    help(update, *group.await(update));
    for (const Norms& of_owner : norms.collect(update)) {
      device::await_stream_event(of_owner.ready);
      right = of_owner.on_gpu.item<double>() > 0 && right;
    }
    at::Tensor expected = values(0, update, size);
    for (int other = 1; other < kReplicas; ++other) expected += values(other, update, size);
    const at::Tensor seen = buffer.cpu(), before = values(replica, update, size);
    for (const SumRange& range : ranges) {
      const bool takes = range.owner == SumRange::kAll || range.owner == replica;
      const at::Tensor& there = takes ? expected : before;
      right =
          seen.narrow(0, range.begin, range.count).equal(there.narrow(0, range.begin, range.count)) && right;
    }
  }
  c10::cuda::getCurrentCUDAStream().synchronize();
  return right;
}

TEST_P(GpuSums, AreWithTheirOwnersAloneWhereTheyHaveOne) {
  const SumRanges ranges = {{.begin = 0, .count = 1600, .owner = 0},
                            {.begin = 1600, .count = 48},
                            {.begin = 1648, .count = 5 << 20, .owner = 1},
                            {.begin = 1648 + (5 << 20), .count = 16, .owner = 2},
                            {.begin = 1664 + (5 << 20), .count = 13 << 20}};
  WaitHub hub(std::chrono::duration<double>(60));
  ReplicaGroup group(hub, kReplicas, sums_on_gpus(GetParam(), ranges));
  NormExchange norms(hub, 1, kReplicas, kReplicas);
  std::vector<std::future<bool>> replicas;
  for (int replica = 0; replica < kReplicas; ++replica)
    replicas.push_back(
        std::async(std::launch::async, [&, replica] { return run_owner(group, norms, ranges, replica); }));
  for (auto& replica : replicas) EXPECT_TRUE(replica.get());
}

INSTANTIATE_TEST_SUITE_P(Gpus, GpuSums, testing::Bool(),
                         [](const auto& info) { return info.param ? "apart" : "shared"; });

}  // namespace
}  // namespace twobw::transport
