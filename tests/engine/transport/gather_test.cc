// All-gather of a flat buffer over replicas, within a process and between several.
#include "engine/transport/gather.h"

#include <gtest/gtest.h>

#include <future>
#include <numeric>

#include "tests/engine/transport/wires.h"

namespace twobw::transport {
namespace {

using Seconds = std::chrono::duration<double>;
using Parts = std::vector<weights::Range>;

const Parts kParts = {{0, 5}, {5, 0}, {5, 3}, {8, 2}};  // one has nothing

// A replica's buffer before a turn: its own part is set, the others are not.
at::Tensor own_part(const Parts& parts, int replica, int turn, at::ScalarType type) {
  const at::Tensor whole = at::full({parts.back().end()}, -1, type);
  parts[replica].of(whole).fill_(10 * turn + replica);
  return whole;
}

at::Tensor whole_of(const Parts& parts, int turn, at::ScalarType type) {
  const at::Tensor whole = at::empty({parts.back().end()}, type);
  for (int replica = 0; replica < std::ssize(parts); ++replica)
    parts[replica].of(whole).fill_(10 * turn + replica);
  return whole;
}

void gather_turns(Gather& gather, int replica) {
  for (int turn = 0; turn < 20; ++turn) {
    const at::ScalarType type = turn % 2 == 0 ? at::kFloat : at::kBFloat16;
    const at::Tensor whole = own_part(kParts, replica, turn, type);
    gather.run(replica, whole);
    EXPECT_TRUE(whole.equal(whole_of(kParts, turn, type))) << "replica " << replica << " turn " << turn;
    whole.fill_(-2);  // must not disturb the others
  }
}

TEST(Gather, GivesAllOfItToEveryReplica) {
  WaitHub hub(Seconds(60));
  Gather gather(hub, kParts, 4);
  on_all_ranks(4, [&](int replica) { gather_turns(gather, replica); });
}

struct GatherCase {
  WireKind kind;
  std::vector<int> ranks;  // of the four replicas
};

class GatherOver : public testing::TestWithParam<GatherCase> {};

std::vector<GatherCase> gather_cases() {
  std::vector<GatherCase> cases;
  for (const WireKind& kind : wire_kinds()) {
    for (const std::vector<int>& ranks :
         std::vector<std::vector<int>>{{0, 1, 2, 3}, {0, 0, 1, 1}, {0, 1, 1, 2}, {0, 0, 0, 1}})
      cases.push_back({kind, ranks});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Replicas, GatherOver, testing::ValuesIn(gather_cases()), [](const auto& info) {
  std::string name = info.param.kind.name + std::string("_of");
  for (int rank : info.param.ranks) name += std::to_string(rank);
  return name;
});

TEST_P(GatherOver, GivesAllOfItToEveryReplica) {
  const auto& [kind, ranks] = GetParam();
  if (kind.is_missing) GTEST_SKIP() << "built without Gloo";
  const AllWires wires = kind.make(ranks.back() + 1);
  on_all_ranks(ranks.back() + 1, [&](int rank) {
    WaitHub hub(Seconds(60));
    RemoteGather remote(
        {.wire = *wires[rank],
         .tag = 7,
         .ranks = ranks,
         .name = "weights",
         .on_failure = [](const std::string& thread,
                          const std::exception_ptr&) { ADD_FAILURE() << thread << " failed"; }},
        kParts);
    const auto here = static_cast<int>(std::ranges::count(ranks, rank));
    const auto first = static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
    Gather gather(hub, kParts, here, &remote);
    on_all_ranks(here, [&](int i) { gather_turns(gather, first + i); });
  });
}

TEST(Gather, MissingReplicaTimesOut) {
  WaitHub hub(Seconds(0.05));
  Gather gather(hub, kParts, 4);
  try {
    gather.run(0, own_part(kParts, 0, 0, at::kFloat));
    FAIL() << "it did not wait";
  } catch (const WaitTimeout& timeout) {
    EXPECT_STREQ(timeout.what(), "no weights from all 4 replicas within 0.05 s");
  }
}

}  // namespace
}  // namespace twobw::transport
