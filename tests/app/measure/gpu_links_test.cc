// Links between GPUs as they are measured, with paths that need no GPU and threads as ranks.
#include "app/measure/gpu_links.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <tuple>

#include "core/base/error.h"
#include "tests/engine/support/memory_control.h"
#include "tests/engine/transport/path_in_memory.h"
#include "tests/engine/transport/wires.h"

namespace twobw::measure {
namespace {

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

class PathsInMemory final : public transport::GpuPaths {
 public:
  explicit PathsInMemory(Ways& ways) : ways_(ways) {}
  std::unique_ptr<GpuPath> connect(const LinkEnd& end) override {
    const int own = end.wire.rank();
    return std::make_unique<EndOfWay>(end.sends ? ways_.find(own, end.peer, end.tag)
                                                : ways_.find(end.peer, own, end.tag));
  }
  std::unique_ptr<transport::GpuAdder> join(const Replicas&, transport::SumRanges) override {
    return nullptr;
  }
  std::unique_ptr<transport::GpuGatherer> join_owners(const Replicas&, std::vector<weights::Range>) override {
    return nullptr;
  }
  void abort() override {}

 private:
  Ways& ways_;
};

// Joining fails in every process.
class NoPaths final : public transport::GpuPaths {
 public:
  std::unique_ptr<GpuPath> connect(const LinkEnd&) override { fail_run("no way there"); }
  std::unique_ptr<transport::GpuAdder> join(const Replicas&, transport::SumRanges) override {
    return nullptr;
  }
  std::unique_ptr<transport::GpuGatherer> join_owners(const Replicas&, std::vector<weights::Range>) override {
    return nullptr;
  }
  void abort() override {}
};

class Ranks {
 public:
  explicit Ranks(int size) {
    auto controls = control::controls_in_memory(size);
    auto activations = transport::wires_in_memory(size), gradients = transport::wires_in_memory(size),
         exchange = transport::wires_in_memory(size);
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

TEST(GpuLinks, AreMeasuredByTheOneWhoAsks) {
  Ranks ranks(3);
  Ways ways;
  transport::on_all_ranks(3, [&](int rank) {
    GpuLinks links(ranks[rank], {}, 60,
                   [&](auto, const auto&) { return std::make_unique<PathsInMemory>(ways); });
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
                   [&](auto, const auto&) { return std::make_unique<PathsInMemory>(ways); });
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
    GpuLinks links(ranks[rank], {}, 60, [&](auto, const auto&) { return std::make_unique<NoPaths>(); });
    EXPECT_THROW(links.measure({0, 1}, 0.05), RunError);
  });
}

}  // namespace
}  // namespace twobw::measure
