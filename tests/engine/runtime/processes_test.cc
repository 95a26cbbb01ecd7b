// Pipelines over several processes: requests reach all workers, and a failure ends all of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>

#include "app/train/verify.h"
#include "tests/engine/runtime/bench.h"
#include "tests/engine/runtime/ranks.h"
#include "tests/engine/runtime/settings.h"

namespace twobw::runtime {
namespace {

using transport::wire_kinds;
using transport::WireKind;

TEST(SpreadPipeline, MayFollowAnotherInTheSameProcesses) {
  device::initialize();
  const Ranks ranks(2, wire_kinds().front());
  std::atomic<int> equal = 0;
  ranks.run([&](int rank) {
    for (const int m : {2, 4, 3}) {
      Config config = short_config("pipeline.split=[5,7] pipeline.replicas=2");
      config.pipeline.microbatches = m;
      const train::Verification result = train::verify(config, {.processes = ranks[rank]});
      EXPECT_TRUE(result.equal) << result.difference;
      equal += result.equal;
    }
  });
  EXPECT_EQ(equal, 6);
}

struct Layout {
  int replicas, processes;
};

// Two stages.
class Requests : public testing::TestWithParam<Layout> {
 protected:
  const int replicas_ = GetParam().replicas, processes_ = GetParam().processes;
  const Ranks ranks_{processes_, wire_kinds().front()};

  // Runs in every rank. Rank 0 has the workers' updates; requests come from the last rank.
  void run(const Bench& bench, const std::function<Observer(int rank)>& observer_of) {
    ranks_.run([&](int rank) {
      const auto pipeline =
          bench.pipeline({.processes = processes_ > 1 ? ranks_[rank] : nullptr}, observer_of(rank));
      if (rank == processes_ - 1) asked_ = pipeline.get();
      pipeline->run();
      if (rank == processes_ - 1) {
        const std::lock_guard lock(mutex_);
        asked_ = nullptr;
      }
    });
  }

  std::mutex mutex_;
  std::atomic<Pipeline*> asked_{nullptr};
};

INSTANTIATE_TEST_SUITE_P(Pipelines, Requests,
                         testing::Values(Layout{1, 1}, Layout{2, 1}, Layout{1, 2}, Layout{2, 4}),
                         [](const auto& info) {
                           return fmt::format("{}_replicas_{}_processes", info.param.replicas,
                                              info.param.processes);
                         });

TEST_P(Requests, StopEndsAllWorkersAfterTheSameUpdate) {
  const Bench bench(2, replicas_, {2, 5});
  std::vector<std::int64_t> last(2 * replicas_, -1);
  Observer observer = silent();
  observer.on_update = [&](telemetry::StageUpdate update) {
    const std::lock_guard lock(mutex_);
    std::int64_t& before = last[2 * update.replica + update.stage];
    EXPECT_EQ(update.update, before + 1);
    before = update.update;
    if (Pipeline* pipeline = asked_.load(); pipeline && update.update >= 5) pipeline->request_stop();
  };
  run(bench, [&](int rank) { return rank == 0 ? observer : silent(); });
  for (std::int64_t update : last) EXPECT_EQ(update, last[0]);
  EXPECT_GE(last[0], 5);
  EXPECT_LT(last[0], bench.config.train.updates - 1);
}

// Every process saves the stages of replica 0 that it has, all at the same cuts.
TEST_P(Requests, SaveIsOfTheSameCutInAllProcesses) {
  Bench bench(2, replicas_, {2, 5});
  bench.setup.spec.save_last = true;
  std::map<int, std::vector<std::int64_t>> cuts;  // by stage
  std::atomic<bool> requested = false;
  run(bench, [&](int rank) {
    Observer observer = silent();
    observer.on_snapshot = [&, rank](const Snapshot& snapshot) {
      const std::lock_guard lock(mutex_);
      EXPECT_EQ(snapshot.stage % processes_, rank);
      cuts[snapshot.stage].push_back(snapshot.update);
    };
    if (rank == 0) {
      observer.on_update = [&](const telemetry::StageUpdate& update) {
        const std::lock_guard lock(mutex_);
        Pipeline* pipeline = asked_.load();
        if (pipeline && update.update >= 3 && !requested.exchange(true))
          pipeline->request_save(/*stop=*/true);
      };
    }
    return observer;
  });
  ASSERT_EQ(cuts.size(), 2u);
  EXPECT_EQ(cuts[0], cuts[1]);
  EXPECT_GE(cuts[0].front(), 3);
  EXPECT_LT(cuts[0].back(), bench.config.train.updates);
}

class Failure : public testing::TestWithParam<WireKind> {
 protected:
  void SetUp() override {
    if (GetParam().is_missing) GTEST_SKIP() << "built without Gloo";
  }
};

INSTANTIATE_TEST_SUITE_P(SpreadPipeline, Failure, testing::ValuesIn(wire_kinds()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(Failure, InOneProcessEndsAll) {
  Bench bench(2, 2, {2, 6});
  std::atomic<int> forwards = 0;
  bench.insert_layer("thrower", [&](auto, const models::Tensors& x, const auto&) -> models::Tensors {
    if (++forwards == 20) throw std::runtime_error("out of luck");
    return x;
  });
  const Ranks ranks(4, GetParam());
  transport::on_all_ranks(4, [&](int rank) {
    const std::string message = message_of(*bench.pipeline({.processes = ranks[rank]}));
    EXPECT_NE(message.find("stage 1: out of luck"), std::string::npos) << message;
  });
}

// Stage 1 hangs in rank 1 until rank 0 has timed out and reported.
TEST_P(Failure, OfAWaitReportsOwnWorkersAndPeers) {
  Gate gate;
  Bench bench(2, 1, {2, 6}), hasty(2, 1, {2, 6});
  for (Bench* one : {&bench, &hasty}) one->insert_layer("gate", gate.forward());
  hasty.config.pipeline.timeout = 0.2;
  const Ranks ranks(2, GetParam());
  std::vector<std::string> messages(2);
  transport::on_all_ranks(2, [&](int rank) {
    const auto pipeline = (rank == 0 ? hasty : bench).pipeline({.processes = ranks[rank]});
    std::thread opener([&] {
      if (rank != 0) return;
      FailureProbe::await(*pipeline);
      gate.open();
    });
    messages[rank] = message_of(*pipeline);
    opener.join();
  });
  for (const std::string& message : messages)
    EXPECT_NE(message.find("the pipeline is stuck; stage 0: no gradient of microbatch 0"), std::string::npos)
        << message;
  EXPECT_NE(messages[0].find("  stage 0: RecvGradient microbatch 0 (batch 0)"), std::string::npos)
      << messages[0];
  EXPECT_EQ(messages[0].find("  stage 1: "), std::string::npos) << messages[0];
  EXPECT_NE(messages[0].find("  process 1: last heard of "), std::string::npos) << messages[0];
  EXPECT_FALSE(messages[0].ends_with('\n')) << messages[0];
}

TEST_P(Failure, OfAProcessWithoutAPipelineEndsTheOthers) {
  const Bench bench(2, 1, {2, 5});
  const Ranks ranks(2, GetParam());
  std::string message;
  transport::on_all_ranks(2, [&](int rank) {
    if (rank == 1) return ranks[1]->abort("no data here");
    try {
      message = message_of(*bench.pipeline({.processes = ranks[rank]}));
    } catch (const RunError& error) {
      message = error.what();
    }
  });
  EXPECT_NE(message.find("no data here"), std::string::npos) << message;
}

TEST(SpreadPipeline, WorkersMustBeAMultipleOfTheProcesses) {
  const Bench bench(3, 1, {2, 3, 2});
  const Ranks ranks(2, wire_kinds().front());
  try {
    bench.pipeline({.processes = ranks[0]});
    FAIL() << "3 workers in 2 processes";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("which 2 processes cannot share evenly"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace twobw::runtime
