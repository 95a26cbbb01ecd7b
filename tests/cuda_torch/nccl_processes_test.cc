// Links and collectives over NCCL between GPUs of several processes, with threads as ranks. Needs several
// GPUs, or an NCCL that lets ranks share one.
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "core/base/error.h"
#include "engine/device/clock.h"
#include "engine/transport/gather.h"
#include "engine/transport/gpu_paths.h"
#include "engine/transport/nccl_channel.h"
#include "engine/transport/remote_link.h"
#include "engine/transport/remote_sum.h"
#include "gpu_links.h"
#include "nccl_ranks.h"
#include "tests/engine/transport/wires.h"

namespace twobw::transport {
namespace {

OnFailure fails_the_test() {
  return [](const std::string& thread, const std::exception_ptr&) { ADD_FAILURE() << thread << " failed"; };
}

using AllPaths = std::vector<std::unique_ptr<GpuPaths>>;

AllPaths paths_of(int ranks, const OnFailure& on_failure = fails_the_test(), Seconds timeout = Seconds(60)) {
  AllPaths paths;
  for (int rank = 0; rank < ranks; ++rank) paths.push_back(nccl_paths(timeout, on_failure));
  return paths;
}

// Both ends, of two ranks.
class JoinedGpuEnds final : public Link {
 public:
  explicit JoinedGpuEnds(WaitHub& hub) : wires_(wires_in_memory(2)), paths_(paths_of(2)) {
    on_all_ranks(2, [&](int rank) {
      const bool sends = rank == 0;
      RemoteEnd end{.wire = *wires_[rank],
                    .peer = 1 - rank,
                    .tag = 30,
                    .name = sends ? "out" : "in",
                    .on_failure = fails_the_test()};
      end.gpu = paths_[rank]->connect(
          {.wire = end.wire, .peer = end.peer, .tag = end.tag, .sends = sends, .gpu = gpu_of(rank)});
      (sends ? sender_ : receiver_) =
          sends ? sending_end(std::move(end)) : receiving_end(hub, std::move(end));
    });
  }
  ~JoinedGpuEnds() override {
    sender_.reset();  // ends first
    receiver_.reset();
  }

  void send(const Tag& tag, Tensors tensors) override { sender_->send(tag, std::move(tensors)); }
  Tensors receive(const Tag& tag) override { return receiver_->receive(tag); }

 private:
  AllWires wires_;
  AllPaths paths_;
  std::unique_ptr<Link> sender_, receiver_;
};

struct NcclBetweenProcesses {
  static std::string missing() { return ranks_missing(2); }
  static device::Device sender() { return whole_gpu(0); }
  static device::Device receiver() { return whole_gpu(device::gpu_count() > 1 ? 1 : 0); }
  static std::unique_ptr<Link> make(WaitHub& hub) { return std::make_unique<JoinedGpuEnds>(hub); }
  static constexpr bool kHandsOver = false;
};

INSTANTIATE_TYPED_TEST_SUITE_P(NcclBetweenProcesses, Links, NcclBetweenProcesses);

// Numbers of all sizes, so that another order would show.
at::Tensor gradient_of(int replica, std::int64_t size) {
  const at::Tensor places = at::arange(size, at::kDouble) + 7.0 * replica;
  return (places.sin() * (places * 3).cos().mul(12).exp()).to(at::kFloat);
}

class NcclSums : public testing::TestWithParam<std::vector<int>> {
 protected:
  void SetUp() override {
    const std::string missing = ranks_missing(GetParam().back() + 1);
    if (!missing.empty()) GTEST_SKIP() << missing;
  }
};

INSTANTIATE_TEST_SUITE_P(Replicas, NcclSums,
                         testing::Values(std::vector{0, 1}, std::vector{0, 0, 1, 1}, std::vector{0, 0, 1},
                                         std::vector{0, 1, 2}, std::vector{0, 1, 2, 3}));

// Sums of one gradient of each replica, complete at the owners of `ranges` or, without, in every buffer.
void expect_sums(const std::vector<int>& ranks, std::int64_t size, const SumRanges& ranges) {
  const int processes = ranks.back() + 1;
  const AllWires wires = wires_in_memory(processes);
  const AllPaths paths = paths_of(processes);
  at::Tensor expected = gradient_of(0, size);
  for (int replica = 1; replica < std::ssize(ranks); ++replica) expected += gradient_of(replica, size);
  on_all_ranks(processes, [&](int rank) {
    const int gpu = gpu_of(rank);
    const device::DeviceBinding binding("rank", whole_gpu(gpu));
    const RemoteReplicas replicas{
        .wire = *wires[rank], .tag = 8, .ranks = ranks, .name = "sums", .on_failure = fails_the_test()};
    RemoteSums sums(replicas, {}, paths[rank]->join(replicas, gpu, ranges));
    std::vector<Contribution> own;
    for (int replica = 0; replica < std::ssize(ranks); ++replica) {
      if (ranks[replica] != rank) continue;
      own.push_back({.gradient = gradient_of(replica, size).to(binding.compute("fp32").device()),
                     .ready = device::record_stream_event()});
    }
    std::promise<device::StreamEvent> made;
    const auto sum = sums.make()(own);
    ASSERT_TRUE(sum->advance());
    EXPECT_FALSE(sum->advance());
    int visited = 0;
    sum->then(sums.first_replica(), [&] {
      sum->for_each([&](int replica, const Contribution& one) {
        EXPECT_TRUE(one.gradient.is_same(own[replica - sums.first_replica()].gradient));
        ++visited;
      });
      made.set_value(device::record_stream_event());
    });
    device::await_stream_event(made.get_future().get());
    EXPECT_EQ(visited, std::ssize(own));
    for (int i = 0; i < std::ssize(own); ++i) {
      EXPECT_TRUE(!ranges.empty() || same_bits(own[i].gradient, expected)) << size;
      for (const SumRange& range : ranges) {
        if (range.owner != SumRange::kAll && range.owner != sums.first_replica() + i) continue;
        EXPECT_TRUE(same_bits(own[i].gradient.narrow(0, range.begin, range.count),
                              expected.narrow(0, range.begin, range.count)))
            << range.begin << " of replica " << sums.first_replica() + i;
      }
    }
  });
}

// One round, less than a number each, and several rounds of odd sizes.
TEST_P(NcclSums, HaveTheBitsOfOneProcess) {
  for (const std::int64_t size : {10'007, 1, 20'000'003}) expect_sums(GetParam(), size, {});
}

// A range for each replica, the first and the last for all; some of several rounds.
TEST_P(NcclSums, AreCompleteAtTheOwners) {
  SumRanges ranges = {{.count = 20'000'000}};
  for (int replica = 0; replica < std::ssize(GetParam()); ++replica)
    ranges.push_back(
        {.begin = ranges.back().end(), .count = replica % 2 == 0 ? 9'000'000 : 16, .owner = replica});
  ranges.push_back({.begin = ranges.back().end(), .count = 1'003});
  expect_sums(GetParam(), ranges.back().end(), ranges);
}

class NcclGathers : public NcclSums {};

INSTANTIATE_TEST_SUITE_P(Replicas, NcclGathers,
                         testing::Values(std::vector{0, 1}, std::vector{0, 0, 1, 1}, std::vector{0, 0, 1},
                                         std::vector{0, 1, 2}));

// Gathers parts that are still being computed, turn after turn in the same buffer, in two formats.
TEST_P(NcclGathers, GiveAllOfItToEveryReplica) {
  constexpr int kTurns = 6;
  const std::vector<int> ranks = GetParam();
  const int processes = ranks.back() + 1;
  std::vector<weights::Range> parts = {{.count = 1'000'016}};
  for (int replica = 1; replica < std::ssize(ranks); ++replica)
    parts.push_back({.begin = parts.back().end(), .count = replica == 2 ? 0 : 2'000'000});
  const AllWires wires = wires_in_memory(processes);
  const AllPaths paths = paths_of(processes);
  on_all_ranks(processes, [&](int rank) {
    const int gpu = gpu_of(rank);
    WaitHub hub(Seconds(60));
    const RemoteReplicas replicas{
        .wire = *wires[rank], .tag = 8, .ranks = ranks, .name = "weights", .on_failure = fails_the_test()};
    RemoteGather remote(replicas, parts, paths[rank]->join_owners(replicas, gpu, parts));
    const auto here = static_cast<int>(std::ranges::count(ranks, rank));
    const auto first = static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
    Gather gather(hub, parts, here, &remote);
    on_all_ranks(here, [&](int i) {
      const int replica = first + i;
      const device::DeviceBinding binding("rank", whole_gpu(gpu));
      for (const char* precision : {"fp32", "bf16"}) {
        const at::Tensor whole = at::empty({parts.back().end()}, binding.compute(precision));
        std::vector<at::Tensor> seen;
        for (int turn = 0; turn < kTurns; ++turn) {
          whole.fill_(-1);
          parts[replica].of(whole).fill_(10 * turn + replica);
          gather.run(replica, whole);
          seen.push_back(whole.clone());
        }
        for (int turn = 0; turn < kTurns; ++turn) {
          for (int owner = 0; owner < std::ssize(parts); ++owner)
            EXPECT_TRUE(parts[owner].of(seen[turn]).eq(10 * turn + owner).all().item<bool>())
                << "of " << owner << " at " << replica << " in turn " << turn;
        }
      }
    });
  });
}

// An abort ends the wait for a rank that never joins, and frees thread and GPU.
TEST(NcclPaths, AnAbortEndsWaits) {
  const std::string missing = ranks_missing(2);
  if (!missing.empty()) GTEST_SKIP() << missing;
  const AllWires wires = wires_in_memory(2);
  const AllPaths paths = paths_of(2);
  std::vector<std::unique_ptr<GpuPath>> ends(2);
  on_all_ranks(2, [&](int rank) {
    ends[rank] = paths[rank]->connect(
        {.wire = *wires[rank], .peer = 1 - rank, .tag = 3, .sends = rank == 0, .gpu = gpu_of(rank)});
  });
  const device::DeviceBinding binding("rank", whole_gpu(gpu_of(1)));
  ends[1]->receive({{.type = at::kFloat, .sizes = {1000}}});  // nothing is sent
  auto waiting = std::async(std::launch::async, [&] { ends[1]->drain(); });
  for (const auto& one : paths) one->abort();
  EXPECT_THROW(waiting.get(), Cancelled);
  EXPECT_THROW(ends[1]->receive({{.type = at::kFloat, .sizes = {1}}}), Cancelled);
  EXPECT_THROW(ends[0]->send({at::zeros({1}, binding.compute("fp32"))}), Cancelled);
}

// Without an abort, the watching thread reports a transfer that takes too long.
TEST(NcclPaths, TransferThatDoesNotEndIsReported) {
  const std::string missing = ranks_missing(2);
  if (!missing.empty()) GTEST_SKIP() << missing;
  const AllWires wires = wires_in_memory(2);
  std::promise<std::string> told;
  std::atomic<bool> first = true;
  const OnFailure tells = [&](const std::string&, const std::exception_ptr& failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const RunError& error) {
      if (first.exchange(false)) told.set_value(error.what());
    }
  };
  const AllPaths paths = paths_of(2, tells, Seconds(5));
  std::vector<std::unique_ptr<GpuPath>> ends(2);
  on_all_ranks(2, [&](int rank) {
    ends[rank] = paths[rank]->connect(
        {.wire = *wires[rank], .peer = 1 - rank, .tag = 3, .sends = rank == 0, .gpu = gpu_of(rank)});
  });
  ends[1]->receive({{.type = at::kFloat, .sizes = {1000}}});  // nothing is sent
  EXPECT_EQ(told.get_future().get(), "NCCL: a transfer from process 0 did not end within 5 s");
  for (const auto& one : paths) one->abort();
}

}  // namespace
}  // namespace twobw::transport
