// Links between processes: which are measured when, over a simulated network, and between GPUs over paths
// that need no GPU.
#include "app/measure/links.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>

#include "core/base/error.h"
#include "tests/app/measure/simulated_wires.h"
#include "tests/engine/support/memory_control.h"
#include "tests/engine/transport/path_in_memory.h"
#include "tests/engine/transport/wires.h"

namespace twobw::measure {
namespace {

using Rounds = std::vector<std::vector<RankPair>>;

TEST(HostRounds, FindTheRanksOfEveryHost) {
  EXPECT_EQ(ranks_by_host({"b", "a", "b", "a", "c"}), (std::vector<std::vector<int>>{{0, 2}, {1, 3}, {4}}));
}

TEST(HostRounds, OfOneHostAreOnePair) {
  EXPECT_EQ(rounds_of({"a", "a", "a"}), (Rounds{{{0, 1}}}));
  EXPECT_EQ(rounds_of({"a"}), Rounds());
}

TEST(HostRounds, OfTwoHostsAreInsideAndBetween) {
  EXPECT_EQ(rounds_of({"a", "a", "b", "b"}), (Rounds{{{0, 1}, {2, 3}}, {{0, 2}}}));
  EXPECT_EQ(rounds_of({"a", "b"}), (Rounds{{{0, 1}}}));
}

TEST(HostRounds, MeetEveryTwoHostsOnceAndNoneTwiceAtATime) {
  for (int hosts = 2; hosts <= 9; ++hosts) {
    std::vector<std::string> names;
    for (int i = 0; i < hosts; ++i) names.push_back(std::to_string(i));
    const Rounds rounds = rounds_of(names);
    EXPECT_EQ(std::ssize(rounds), hosts - 1 + hosts % 2);
    std::set<std::pair<int, int>> met;
    for (const auto& round : rounds) {
      std::set<int> busy;
      for (const RankPair& pair : round) {
        EXPECT_LT(pair.asks, pair.answers);
        EXPECT_TRUE(met.insert({pair.asks, pair.answers}).second) << pair.asks << " and " << pair.answers;
        EXPECT_TRUE(busy.insert(pair.asks).second && busy.insert(pair.answers).second);
      }
    }
    EXPECT_EQ(std::ssize(met), hosts * (hosts - 1) / 2);
  }
}

using Strings = std::vector<std::string>;

using Wires = std::vector<std::unique_ptr<transport::Wire>>;

// Ranks as threads.
class Ranks {
 public:
  explicit Ranks(int size, const std::function<Wires()>& make_wires = {}) {
    auto controls = control::controls_in_memory(size);
    const auto wires = [&] { return make_wires ? make_wires() : transport::wires_in_memory(size); };
    Wires activations = wires(), gradients = wires(), exchange = wires();
    for (int rank = 0; rank < size; ++rank) {
      all_.push_back(std::make_unique<transport::Processes>(std::move(controls[rank])));
      all_.back()->control().start();
      all_.back()->set_wires({.activations = std::move(activations[rank]),
                              .gradients = std::move(gradients[rank]),
                              .exchange = std::move(exchange[rank])});
    }
  }
  transport::Processes& operator[](int rank) { return *all_[rank]; }

 private:
  std::vector<std::unique_ptr<transport::Processes>> all_;
};

// Ranks on hosts joined by a simulated network.
class SimulatedHosts {
 public:
  SimulatedHosts(const Strings& hosts, SimulatedNetwork::LinkOf link_of)
      : hosts_(hosts),
        network_(static_cast<int>(hosts.size()), std::move(link_of)),
        all_(static_cast<int>(hosts.size()), [this] { return network_.wires(); }) {}

  std::vector<ProcessLink> measure(const LinkBudget& budget) {
    std::vector<ProcessLink> links;
    transport::on_all_ranks(static_cast<int>(hosts_.size()), [&](int rank) {
      auto found =
          measure_links(all_[rank], rank == 0 ? hosts_ : Strings(), budget, {}, network_.clock(rank));
      if (rank == 0) {
        links = std::move(found);
      } else {
        EXPECT_TRUE(found.empty());
      }
      all_[rank].control().leave();
    });
    return links;
  }

  double seconds(int rank) const { return network_.now(rank); }

 private:
  Strings hosts_;
  SimulatedNetwork network_;
  Ranks all_;
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
  Ranks ranks(2);
  std::thread other([&] { EXPECT_THROW(measure_links(ranks[1]), RunError); });
  ranks[0].abort("enough");
  other.join();
}

TEST(ProcessLinks, TellContainersOfAMachineApart) {
  const std::vector<runtime::HostDevices> processes = {
      {.host = "one", .machine = "m"}, {.host = "two", .machine = "m"}, {.host = "one", .machine = "n"}};
  const Strings hosts = hosts_of(processes);
  EXPECT_EQ(ranks_by_host(hosts).size(), 3u);
}

using transport::GpuPath;

// Both ends of a way find each other here.
class Ways {
 public:
  std::shared_ptr<GpuPath> find(int from, int to, int tag) {
    std::lock_guard lock(mutex_);
    auto& way = ways_[{from, to, tag}];
    if (!way) way = std::make_shared<transport::PathInMemory>();
    return way;
  }
  std::size_t size() {
    std::lock_guard lock(mutex_);
    return ways_.size();
  }

 private:
  std::mutex mutex_;
  std::map<std::tuple<int, int, int>, std::shared_ptr<GpuPath>> ways_;
};

class EndOfWay final : public GpuPath {
 public:
  explicit EndOfWay(std::shared_ptr<GpuPath> way) : way_(std::move(way)) {}
  void await(const device::StreamEvent& ready) override { way_->await(ready); }
  void send(transport::Tensors tensors) override { way_->send(std::move(tensors)); }
  transport::Message receive(const transport::TensorShapes& shapes) override { return way_->receive(shapes); }
  transport::Tensors take(transport::Message message) const override {
    return way_->take(std::move(message));
  }
  void drain() override { way_->drain(); }

 private:
  std::shared_ptr<GpuPath> way_;
};

// Without ways every connection fails.
class PathsInMemory final : public transport::GpuPaths {
 public:
  explicit PathsInMemory(Ways* ways) : ways_(ways) {}
  std::unique_ptr<GpuPath> connect(const LinkEnd& end) override {
    if (ways_ == nullptr) fail_run("no way there");
    const int own = end.wire.rank();
    return std::make_unique<EndOfWay>(end.sends ? ways_->find(own, end.peer, end.tag)
                                                : ways_->find(end.peer, own, end.tag));
  }
  std::unique_ptr<transport::GpuAdder> join(const transport::RemoteReplicas&, int,
                                            transport::SumRanges) override {
    return nullptr;
  }
  std::unique_ptr<transport::GpuGatherer> join_owners(const transport::RemoteReplicas&, int,
                                                      std::vector<weights::Range>) override {
    return nullptr;
  }
  void abort() override {}

 private:
  Ways* ways_;
};

TEST(GpuLinks, AreMeasuredByTheOneWhoAsks) {
  Ranks ranks(3);
  Ways ways;
  transport::on_all_ranks(3, [&](int rank) {
    GpuLinks links(ranks[rank], {}, 60,
                   [&](auto, const auto&) { return std::make_unique<PathsInMemory>(&ways); });
    for (const RankPair pair : {RankPair{0, 1}, RankPair{0, 2}}) {
      if (pair.asks != rank && pair.answers != rank) continue;
      const std::optional<WireLink> found = links.measure(pair, 0.05);
      ASSERT_EQ(found.has_value(), pair.asks == rank);
      if (!found) continue;
      EXPECT_GT(found->latency, 1e-8);
      EXPECT_LT(found->latency, 1);
      for (const double bandwidth : {found->one_way, found->both_ways}) {
        EXPECT_GT(bandwidth, 1e5);
        EXPECT_LT(bandwidth, 1e14);
      }
    }
  });
  EXPECT_EQ(ways.size(), 4u);  // there and back, each by its own
  // A pipeline that follows is the same one for all.
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks[rank].attach({.on_message = [](auto, int, std::string_view) {},
                                  .on_abort = [](const control::Failure&) {}}),
              1);
    ranks[rank].detach();
  }
  transport::on_all_ranks(3, [&](int rank) { ranks[rank].control().leave(); });
}

TEST(GpuLinks, EndWithTheRun) {
  Ranks ranks(2);
  Ways ways;
  transport::on_all_ranks(2, [&](int rank) {
    GpuLinks links(ranks[rank], {}, 60,
                   [&](auto, const auto&) { return std::make_unique<PathsInMemory>(&ways); });
    if (rank == 1) {
      ranks[1].abort("enough");  // and never answers
      return;
    }
    EXPECT_THROW(links.measure({0, 1}, 0.05), RunError);
    EXPECT_NE(ranks[0].failure()->reason.find("enough"), std::string::npos) << ranks[0].failure()->reason;
  });
}

TEST(GpuLinks, TellWhyTheyCannotBeJoined) {
  Ranks ranks(2);
  transport::on_all_ranks(2, [&](int rank) {
    GpuLinks links(ranks[rank], {}, 60,
                   [&](auto, const auto&) { return std::make_unique<PathsInMemory>(nullptr); });
    EXPECT_THROW(links.measure({0, 1}, 0.05), RunError);
  });
}

}  // namespace
}  // namespace twobw::measure
