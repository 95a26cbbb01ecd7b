#include "app/measure/wire_link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "tests/app/measure/simulated_wires.h"
#include "tests/engine/transport/wires.h"

namespace twobw::measure {
namespace {

struct MeasuredLink {
  WireLink link;
  double seconds = 0;  // by the clock of the one who asks
};

MeasuredLink measure_simulated(const planner::LinkSpec& there, const planner::LinkSpec& back,
                               double seconds) {
  SimulatedNetwork network(2, [&](int from, int) { return from == 0 ? there : back; });
  const auto activations = network.wires(), gradients = network.wires();
  MeasuredLink outcome;
  transport::on_all_ranks(2, [&](int rank) {
    const LinkEnd end{
        .there = *activations[rank], .back = *gradients[rank], .peer = 1 - rank, .now = network.clock(rank)};
    if (rank == 0) {
      outcome.link = ask(end, seconds);
    } else {
      answer(end);
    }
  });
  outcome.seconds = network.now(0);
  return outcome;
}

TEST(WireLink, IsWhatItsBytesTake) {
  for (const planner::LinkSpec link : {planner::LinkSpec{.latency = 1e-5, .bandwidth = 5e9},
                                       planner::LinkSpec{.latency = 1e-3, .bandwidth = 125e6},
                                       planner::LinkSpec{.latency = 1e-4, .bandwidth = 12.5e6},
                                       planner::LinkSpec{.latency = 0.05, .bandwidth = 1e6}}) {
    const WireLink found = measure_simulated(link, link, 2).link;
    EXPECT_NEAR(found.latency, link.latency, 0.01 * link.latency + 1e-5);
    EXPECT_NEAR(found.one_way, link.bandwidth, 0.01 * link.bandwidth);
    EXPECT_NEAR(found.both_ways, link.bandwidth, 0.01 * link.bandwidth);
  }
}

TEST(WireLink, IsAsSlowAsItsSlowerDirectionWhereBothAreFull) {
  const planner::LinkSpec fast{.latency = 1e-3, .bandwidth = 100e6}, slow{.latency = 1e-3, .bandwidth = 25e6};
  const WireLink narrow_back = measure_simulated(fast, slow, 2).link;
  EXPECT_NEAR(narrow_back.one_way, 100e6, 1e6);
  EXPECT_NEAR(narrow_back.both_ways, 25e6, 0.3e6);
  const WireLink narrow_there = measure_simulated(slow, fast, 2).link;
  EXPECT_NEAR(narrow_there.one_way, 25e6, 0.3e6);
  EXPECT_NEAR(narrow_there.both_ways, 25e6, 0.3e6);
}

TEST(WireLink, TakesNoLongerThanItMay) {
  for (const double latency : {1e-5, 1e-3, 0.05}) {
    for (const double bandwidth : {1e6, 12.5e6, 1e9}) {
      for (const double seconds : {0.5, 2.0}) {
        // A few words to a far host and back, and two tensors, take their time whatever is asked.
        const double least = 25 * latency + 3 * 262144 / bandwidth;
        EXPECT_LE(measure_simulated({latency, bandwidth}, {latency, bandwidth}, seconds).seconds,
                  std::max(1.1 * seconds, least))
            << latency << " " << bandwidth;
      }
    }
  }
}

TEST(WireLink, IsKnownByLargeTensorsWhereItIsFast) {
  SimulatedNetwork network(2, [](int, int) { return planner::LinkSpec{1e-5, 5e9}; });
  const auto activations = network.wires(), gradients = network.wires();
  transport::on_all_ranks(2, [&](int rank) {
    const LinkEnd end{*activations[rank], *gradients[rank], 1 - rank, network.clock(rank)};
    if (rank == 0) {
      ask(end, 2);
    } else {
      answer(end);
    }
  });
  EXPECT_GT(network.sent(), 3 * (16 << 20));
}

TEST(WireLink, CountsForThePlannerWithBothDirectionsFull) {
  const planner::LinkSpec spec =
      spec_of({.latency = 1.23456e-4, .one_way = 9.87654e7, .both_ways = 6.54321e7});
  EXPECT_DOUBLE_EQ(spec.latency, 1.23e-4);
  EXPECT_DOUBLE_EQ(spec.bandwidth, 6.54e7);
  EXPECT_FALSE(spec.shared);
  EXPECT_DOUBLE_EQ(spec_of({.latency = 0, .one_way = 5e7, .both_ways = 6e7}).bandwidth, 5e7);
}

// Over every kind of wire that there is, by the clock: figures that a machine can have.
class WireLinkOver : public testing::TestWithParam<transport::WireKind> {};

TEST_P(WireLinkOver, IsMeasured) {
  if (GetParam().is_missing) GTEST_SKIP() << "not in this build";
  const auto activations = GetParam().make(2), gradients = GetParam().make(2);
  const auto now = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  WireLink found;
  transport::on_all_ranks(2, [&](int rank) {
    const LinkEnd end{*activations[rank], *gradients[rank], 1 - rank, now};
    if (rank == 0) {
      found = ask(end, 0.1);
    } else {
      answer(end);
    }
  });
  EXPECT_GT(found.latency, 1e-8);
  EXPECT_LT(found.latency, 1);
  for (const double bandwidth : {found.one_way, found.both_ways}) {
    EXPECT_GT(bandwidth, 1e5);
    EXPECT_LT(bandwidth, 1e13);
  }
}

INSTANTIATE_TEST_SUITE_P(Wires, WireLinkOver, testing::ValuesIn(transport::wire_kinds()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace twobw::measure
