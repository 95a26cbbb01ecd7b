#include "app/measure/process_links.h"

#include <gtest/gtest.h>

#include <thread>

#include "core/base/error.h"
#include "tests/app/measure/simulated_wires.h"
#include "tests/engine/support/memory_control.h"
#include "tests/engine/transport/wires.h"

namespace twobw::measure {
namespace {

using Strings = std::vector<std::string>;

// Ranks as threads, on hosts joined by a simulated network.
class SimulatedHosts {
 public:
  SimulatedHosts(const Strings& hosts, SimulatedNetwork::LinkOf link_of)
      : hosts_(hosts), network_(static_cast<int>(hosts.size()), std::move(link_of)) {
    auto activations = network_.wires(), gradients = network_.wires(), exchange = network_.wires();
    auto controls = control::controls_in_memory(static_cast<int>(hosts.size()));
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      all_.push_back(std::make_unique<transport::Processes>(std::move(controls[rank])));
      all_.back()->control().start();
      all_.back()->set_wires({.activations = std::move(activations[rank]),
                              .gradients = std::move(gradients[rank]),
                              .exchange = std::move(exchange[rank])});
    }
  }

  std::vector<ProcessLink> measure(const LinkBudget& budget) {
    std::vector<ProcessLink> links;
    transport::on_all_ranks(static_cast<int>(all_.size()), [&](int rank) {
      auto found = measure_links(*all_[rank], rank == 0 ? hosts_ : Strings(), budget, network_.clock(rank));
      if (rank == 0) {
        links = std::move(found);
      } else {
        EXPECT_TRUE(found.empty());
      }
      all_[rank]->control().leave();
    });
    return links;
  }

  double seconds(int rank) const { return network_.now(rank); }

 private:
  Strings hosts_;
  SimulatedNetwork network_;
  std::vector<std::unique_ptr<transport::Processes>> all_;
};

TEST(ProcessLinks, AreMeasuredInsideHostsAndBetweenThem) {
  const Strings hosts = {"a", "a", "b", "b", "c"};
  SimulatedHosts cluster(hosts, [&](int from, int to) {
    if (hosts[from] == hosts[to]) return planner::LinkSpec{1e-5, 4e9};
    const bool slow = hosts[from] == "c" || hosts[to] == "c";
    return planner::LinkSpec{slow ? 2e-3 : 1e-4, slow ? 12.5e6 : 125e6};
  });
  const std::vector<ProcessLink> links = cluster.measure({});
  const auto [inside, between] = links_by_host(links, hosts);
  ASSERT_EQ(inside.size(), 2u);
  EXPECT_EQ(inside[0].ranks, (RankPair{0, 1}));
  EXPECT_EQ(inside[1].ranks, (RankPair{2, 3}));
  ASSERT_EQ(between.size(), 3u);
  for (const ProcessLink& link : inside) EXPECT_NEAR(link.link.both_ways, 4e9, 4e7);
  for (const ProcessLink& link : between) {
    const bool slow = link.ranks.answers == 4;
    EXPECT_NEAR(link.link.both_ways, slow ? 12.5e6 : 125e6, slow ? 2e5 : 2e6);
    EXPECT_NEAR(link.link.latency, slow ? 2e-3 : 1e-4, 1e-5);
  }
  EXPECT_NEAR(slowest(between).bandwidth, 12.5e6, 2e5);
  EXPECT_NEAR(slowest(between).latency, 2e-3, 1e-5);
  EXPECT_EQ(slowest({}), planner::kNoLink);
}

TEST(ProcessLinks, KeepToTheTimeThereIsForAll) {
  Strings hosts;
  for (int host = 0; host < 20; ++host) hosts.push_back(std::to_string(host));
  SimulatedHosts cluster(hosts, [](int, int) { return planner::LinkSpec{1e-3, 12.5e6}; });
  const std::vector<ProcessLink> links = cluster.measure({.round = 0.5, .all = 1});
  // Five rounds of a fifth of a second, in each of which every host is once.
  EXPECT_EQ(links.size(), 50u);
  for (int rank = 0; rank < 20; ++rank) EXPECT_LE(cluster.seconds(rank), 1.5);
  for (const ProcessLink& link : links) EXPECT_NEAR(link.link.both_ways, 12.5e6, 5e5);
}

TEST(ProcessLinks, EndWithTheRun) {
  auto controls = control::controls_in_memory(2);
  transport::Processes first(std::move(controls[0])), second(std::move(controls[1]));
  first.control().start();
  second.control().start();
  std::thread other([&] { EXPECT_THROW(measure_links(second), RunError); });
  first.abort("enough");
  other.join();
}

TEST(ProcessLinks, TellContainersOfAMachineApart) {
  const std::vector<runtime::HostDevices> processes = {
      {.host = "one", .machine = "m"}, {.host = "two", .machine = "m"}, {.host = "one", .machine = "n"}};
  const Strings hosts = hosts_of(processes);
  EXPECT_EQ(ranks_by_host(hosts).size(), 3u);
}

}  // namespace
}  // namespace twobw::measure
