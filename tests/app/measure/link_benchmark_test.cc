#include "app/measure/link_benchmark.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "planning/host/cores.h"
#include "tests/app/measure/simulated_wires.h"
#include "tests/engine/transport/wires.h"

namespace twobw::measure {
namespace {

using Wires = std::vector<std::unique_ptr<transport::Wire>>;

// The link over wires between two ranks. `clock_of`: by rank.
WireLink measure_over(const Wires& activations, const Wires& gradients, double seconds,
                      const std::function<std::function<double()>(int)>& clock_of) {
  WireLink link;
  transport::on_all_ranks(2, [&](int rank) {
    const LinkEnd end{
        .there = *activations[rank], .back = *gradients[rank], .peer = 1 - rank, .now = clock_of(rank)};
    if (rank == 0) {
      link = ask(end, seconds);
    } else {
      answer(end);
    }
  });
  return link;
}

struct MeasuredLink {
  WireLink link;
  double seconds = 0;  // of the asking rank
  std::int64_t sent = 0;
};

MeasuredLink measure_simulated(const planner::LinkSpec& there, const planner::LinkSpec& back,
                               double seconds) {
  SimulatedNetwork network(2, [&](int from, int) { return from == 0 ? there : back; });
  const WireLink link =
      measure_over(network.wires(), network.wires(), seconds, [&](int rank) { return network.clock(rank); });
  return {.link = link, .seconds = network.now(0), .sent = network.sent()};
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
        // A few words to a far host and back, and two tensors, take their time with any budget.
        const double least = 25 * latency + 3 * 262144 / bandwidth;
        EXPECT_LE(measure_simulated({latency, bandwidth}, {latency, bandwidth}, seconds).seconds,
                  std::max(1.1 * seconds, least))
            << latency << " " << bandwidth;
      }
    }
  }
}

TEST(WireLink, IsKnownByLargeTensorsWhereItIsFast) {
  const planner::LinkSpec fast{.latency = 1e-5, .bandwidth = 5e9};
  EXPECT_GT(measure_simulated(fast, fast, 2).sent, 3 * (16 << 20));
}

TEST(WireLink, CountsForThePlannerWithBothDirectionsFull) {
  const planner::LinkSpec spec =
      spec_of({.latency = 1.23456e-4, .one_way = 9.87654e7, .both_ways = 6.54321e7});
  EXPECT_DOUBLE_EQ(spec.latency, 1.23e-4);
  EXPECT_DOUBLE_EQ(spec.bandwidth, 6.54e7);
  EXPECT_FALSE(spec.shared);
  EXPECT_DOUBLE_EQ(spec_of({.latency = 0, .one_way = 5e7, .both_ways = 6e7}).bandwidth, 5e7);
}

// Over every kind of wire, by the clock: plausible figures.
class WireLinkOver : public testing::TestWithParam<transport::WireKind> {};

TEST_P(WireLinkOver, IsMeasured) {
  if (GetParam().is_missing) GTEST_SKIP() << "not in this build";
  const auto now = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  const WireLink found = measure_over(GetParam().make(2), GetParam().make(2), 0.1, [&](int) { return now; });
  EXPECT_GT(found.latency, 1e-8);
  EXPECT_LT(found.latency, 1);
  for (const double bandwidth : {found.one_way, found.both_ways}) {
    EXPECT_GT(bandwidth, 1e5);
    EXPECT_LT(bandwidth, 1e13);
  }
}

INSTANTIATE_TEST_SUITE_P(Wires, WireLinkOver, testing::ValuesIn(transport::wire_kinds()),
                         [](const auto& tested) { return tested.param.name; });

TEST(LocalLink, NeedsTwoCores) {
  const std::vector<int> cores = device::available_cores();
  const auto link = measure_local_link({.cores = {{cores.front()}}}, 1 << 16);
  ASSERT_EQ(link.has_value(), cores.size() > 1);
  if (!link) return;
  EXPECT_GT(link->latency, 0);
  EXPECT_LT(link->latency, 1);
  EXPECT_GT(link->bandwidth, 1e6);
}

TEST(Samples, GiveTheMedianAndHalfTheDistanceOfTheQuartiles) {
  Samples samples;
  EXPECT_EQ(samples.summary().median, 0);
  for (const double value : {5.0, 1.0, 2.0, 100.0, 3.0}) samples.add(value);
  EXPECT_EQ(samples.summary().median, 3);
  EXPECT_EQ(samples.summary().spread, 1.5);
}

}  // namespace
}  // namespace twobw::measure
