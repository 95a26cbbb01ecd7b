// Sums over replicas in several processes have the bits of those in one.
#include "engine/transport/remote_sum.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <future>
#include <iterator>
#include <numeric>

#include "core/base/error.h"
#include "engine/transport/wait_hub.h"
#include "tests/engine/transport/wires.h"

namespace twobw::transport {
namespace {

struct SumCase {
  WireKind kind;
  std::vector<int> ranks;  // of the replicas
  std::int64_t size, piece;
};

// Numbers of all sizes, so that another order would show.
at::Tensor values_of(int update, int replica, std::int64_t size) {
  const at::Tensor places = at::arange(size, at::kDouble) + 7.0 * replica + 0.3 * update;
  return (places.sin() * (places * 3).cos().mul(12).exp()).to(at::kFloat);
}

bool equal_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == b.numel() && std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

OnFailure nothing_fails() {
  return [](const std::string& thread, const std::exception_ptr&) { ADD_FAILURE() << thread << " failed"; };
}

class RemoteSumming : public testing::TestWithParam<SumCase> {
 protected:
  void SetUp() override {
    if (GetParam().kind.is_missing) GTEST_SKIP() << "built without Gloo";
  }
};

std::vector<SumCase> sum_cases() {
  std::vector<SumCase> cases;
  for (const WireKind& kind : wire_kinds()) {
    for (const std::vector<int>& ranks : std::vector<std::vector<int>>{
             {0, 1}, {0, 1, 2}, {0, 1, 2, 3}, {0, 0, 1, 1}, {0, 0, 1}, {0, 1, 1, 2}}) {
      cases.push_back({kind, ranks, 10'007, 1 << 20});  // one round
      cases.push_back({kind, ranks, 10'007, 1'000});    // several, the last a small one
      cases.push_back({kind, ranks, 1, 1'000});         // less than a number each
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Replicas, RemoteSumming, testing::ValuesIn(sum_cases()), [](const auto& info) {
  std::string name = info.param.kind.name + std::string("_of");
  for (int rank : info.param.ranks) name += std::to_string(rank);
  return name + "_" + std::to_string(info.param.size) + "_by_" + std::to_string(info.param.piece);
});

// Every third range belongs to all replicas; the others have owners in turn.
SumRanges ranges_of(std::int64_t size, int replicas) {
  SumRanges ranges;
  std::int64_t begin = 0;
  for (int i = 0; begin < size; ++i) {
    const std::int64_t count = std::min<std::int64_t>(size - begin, i % 2 == 0 ? 700 : 2'300);
    ranges.push_back({.begin = begin, .count = count, .owner = i % 3 == 2 ? SumRange::kAll : i % replicas});
    begin += count;
  }
  return ranges;
}

// Checks the ranges that the replica owns, or the whole buffer.
void expect_own_sum(const SumRanges& ranges, int replica, const at::Tensor& buffer,
                    const at::Tensor& expected) {
  EXPECT_TRUE(!ranges.empty() || equal_bits(buffer, expected)) << "of replica " << replica;
  for (const SumRange& range : ranges) {
    if (range.owner != SumRange::kAll && range.owner != replica) continue;
    const at::Tensor seen = buffer.narrow(0, range.begin, range.count);
    EXPECT_TRUE(equal_bits(seen, expected.narrow(0, range.begin, range.count)))
        << range.begin << " of replica " << replica;
  }
}

std::vector<Contribution> contributions_to(int update, const std::vector<int>& replicas, std::int64_t size) {
  std::vector<Contribution> all;
  for (const int replica : replicas) all.push_back({.gradient = values_of(update, replica, size)});
  return all;
}

// Checks sums in one process, and that sums over several have the same bits.
void expect_sums(const SumCase& test, const SumRanges& ranges) {
  constexpr int kUpdates = 3;
  const auto& [kind, ranks, size, piece] = test;
  std::vector<int> replicas(ranks.size());
  std::iota(replicas.begin(), replicas.end(), 0);
  std::vector<at::Tensor> expected;
  for (int update = 0; update < kUpdates; ++update) {
    const auto all = contributions_to(update, replicas, size),
               owned = contributions_to(update, replicas, size);
    EXPECT_TRUE(sums_on_cores()(all)->advance());
    expected.push_back(all.front().gradient);
    const auto sum = sums_on_cores(ranges)(owned);
    EXPECT_TRUE(sum->advance());
    int visited = 0;
    sum->for_each([&](int replica, const Contribution& own) {
      EXPECT_EQ(replica, visited++);
      EXPECT_TRUE(own.gradient.is_same(owned[replica].gradient));
      expect_own_sum(ranges, replica, own.gradient, expected[update]);
    });
    EXPECT_EQ(visited, std::ssize(replicas));
  }
  const int processes = ranks.back() + 1;
  const AllWires wires = kind.make(processes);
  on_all_ranks(processes, [&](int rank) {
    std::atomic<int> followed = 0;
    std::vector<int> here;
    std::ranges::copy_if(replicas, std::back_inserter(here), [&](int one) { return ranks[one] == rank; });
    std::vector<std::vector<Contribution>> own(kUpdates);
    {
      RemoteSums sums(
          {.wire = *wires[rank], .tag = 40, .ranks = ranks, .name = "sums", .on_failure = nothing_fails()},
          ranges, nullptr, piece);
      const MakeSum make = sums.make();
      for (int update = 0; update < kUpdates; ++update) {
        own[update] = contributions_to(update, here, size);
        const auto sum = make(own[update]);
        EXPECT_TRUE(sum->advance());
        EXPECT_FALSE(sum->advance());  // one does what follows
        sum->then(sums.first_replica(), [&, update, sum] {
          std::vector<int> visited;
          sum->for_each([&](int replica, const Contribution& one) {
            visited.push_back(replica);
            expect_own_sum(ranges, replica, one.gradient, expected[update]);
          });
          EXPECT_EQ(visited, here);
          ++followed;
        });
      }
    }
    EXPECT_EQ(followed, kUpdates);
  });
}

TEST_P(RemoteSumming, HasTheBitsOfOneProcess) {
  expect_sums(GetParam(), {});
}

TEST_P(RemoteSumming, IsCompleteAtTheOwners) {
  expect_sums(GetParam(), ranges_of(GetParam().size, static_cast<int>(std::ssize(GetParam().ranks))));
}

TEST(RemoteSums, ShareTheChangesOfOneReplica) {
  const AllWires wires = wires_in_memory(2);
  on_all_ranks(2, [&](int rank) {
    std::vector<Contribution> own;
    for (int i = 0; i < 2; ++i) own.push_back({.gradient = at::full({5}, 1.0f + static_cast<float>(rank))});
    {
      RemoteSums sums(
          {.wire = *wires[rank], .ranks = {0, 0, 1, 1}, .name = "sums", .on_failure = nothing_fails()});
      EXPECT_EQ(sums.first_replica(), 2 * rank);
      const auto sum = sums.make()(own);
      ASSERT_TRUE(sum->advance());
      const int second = 2 * rank + 1;
      sum->then(second, [&own, sum, second] {
        own[1].gradient.add_(10);
        sum->share(second, 1, 2);
      });
    }
    EXPECT_TRUE(own[0].gradient.equal(at::tensor({6.0f, 16.0f, 16.0f, 6.0f, 6.0f})));
    EXPECT_TRUE(own[1].gradient.equal(at::full({5}, 16.0f)));
  });
}

// A fake of the GPU's adder that counts its calls.
class CountedAdder final : public GpuAdder {
 public:
  CountedAdder(std::atomic<int>& complete, int processes) : complete_(complete), processes_(processes) {}

  void await(const std::vector<Contribution>&) override { ++complete_; }
  void add_up(const std::vector<Contribution>& here) override {
    EXPECT_GE(complete_, processes_ * ++sums_) << "added before all were there";
    here.front().gradient.add_(1);
  }
  void then(const at::Tensor& gradient, const std::function<void()>& work) override {
    followed_at = gradient;
    work();
  }
  void on_gpu_of(const at::Tensor&, const std::function<void()>& work) override { work(); }
  void drain() override { EXPECT_GE(complete_, processes_ * sums_); }

  at::Tensor followed_at;

 private:
  std::atomic<int>& complete_;  // gradients, of all processes
  int processes_, sums_ = 0;
};

TEST(RemoteSums, OnGpusBeginWhenTheGradientsOfAllAreComplete) {
  constexpr int kProcesses = 3, kUpdates = 20;
  const AllWires wires = wires_in_memory(kProcesses);
  std::atomic<int> complete = 0;
  on_all_ranks(kProcesses, [&](int rank) {
    const at::Tensor gradient = at::zeros({4});
    int followed = 0;
    {
      RemoteSums sums(
          {.wire = *wires[rank], .ranks = {0, 1, 2}, .name = "sums", .on_failure = nothing_fails()}, {},
          std::make_shared<CountedAdder>(complete, kProcesses));
      for (int update = 0; update < kUpdates; ++update) {
        const auto sum = sums.make()({{.gradient = gradient}});
        ASSERT_TRUE(sum->advance());
        sum->then(rank, [&] { ++followed; });
      }
    }
    EXPECT_EQ(followed, kUpdates);
    EXPECT_TRUE(gradient.equal(at::full({4}, 1.0f * kUpdates)));
  });
}

// The replica's stage may be on another GPU than the first replica's.
TEST(RemoteSums, WorkAfterASumRunsAtTheGradientOfItsReplica) {
  const AllWires wires = wires_in_memory(2);
  std::atomic<int> complete = 0;
  on_all_ranks(2, [&](int rank) {
    const auto adder = std::make_shared<CountedAdder>(complete, 2);
    const std::vector<Contribution> own = {{.gradient = at::zeros({4})}, {.gradient = at::zeros({4})}};
    {
      RemoteSums sums(
          {.wire = *wires[rank], .ranks = {0, 0, 1, 1}, .name = "sums", .on_failure = nothing_fails()}, {},
          adder);
      const auto sum = sums.make()(own);
      ASSERT_TRUE(sum->advance());
      sum->then(sums.first_replica() + 1, [] {});
    }
    EXPECT_TRUE(adder->followed_at.is_same(own[1].gradient));
  });
}

TEST(RemoteSums, FailureAfterASumIsReported) {
  const AllWires wires = wires_in_memory(2);
  on_all_ranks(2, [&](int rank) {
    std::string message;
    {
      RemoteSums sums({.wire = *wires[rank],
                       .ranks = {0, 1},
                       .name = "sums of stage 3",
                       .on_failure = [&](const std::string& thread, const std::exception_ptr& failure) {
                         try {
                           std::rethrow_exception(failure);
                         } catch (const RunError& error) {
                           message = thread + ": " + error.what();
                         }
                       }});
      const auto sum = sums.make()({{.gradient = at::zeros({3})}});
      ASSERT_TRUE(sum->advance());
      sum->then(rank, [] { fail_run("out of luck"); });
    }
    EXPECT_EQ(message, "sums of stage 3: out of luck");
  });
}

TEST(RemoteSums, EndWhereTheirWireIsAborted) {
  const AllWires wires = wires_in_memory(2);
  const auto failed = std::make_shared<std::atomic<bool>>(false);
  {
    RemoteSums sums({.wire = *wires[0], .ranks = {0, 1}, .name = "sums", .on_failure = nothing_fails()});
    const auto sum = sums.make()({{.gradient = at::zeros({3})}});
    ASSERT_TRUE(sum->advance());
    sum->then(0, [failed] { *failed = true; });  // rank 1 never comes
    wires[0]->abort();
  }
  EXPECT_FALSE(*failed);
}

}  // namespace
}  // namespace twobw::transport
