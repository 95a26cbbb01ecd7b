// Pipelines over several processes: requests reach all workers, and a failure ends all of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>

#include "app/train/verify.h"
#include "core/base/error.h"
#include "engine/data/sources.h"
#include "engine/device/cpu.h"
#include "engine/models/model.h"
#include "engine/runtime/pipeline.h"
#include "tests/engine/runtime/failure_probe.h"
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

// What a test of requests and failures runs in every rank.
struct Bench {
  runtime::Setup setup;
  Config& config = setup.config;
  models::Model& model = setup.model;

  Bench(const Bench&) = delete;
  explicit Bench(int stages, int replicas, std::vector<int> split) {
    device::initialize();
    config.model = {.layers = 1, .width = 8, .heads = 2, .vocab = 17, .context = 4};
    config.pipeline.stages = stages;
    config.pipeline.replicas = replicas;
    config.pipeline.microbatch = 1;
    config.pipeline.microbatches = 2;
    config.pipeline.timeout = 60;
    config.train.updates = 1'000'000;
    config.train.eval_every = 0;
    model = models::build(config.model);
    setup.training = setup.validation = data::make_synthetic(config.model.vocab);
    setup.spec = {.shape = {.schedule = schedule::Kind::TwoBW,
                            .stages = stages,
                            .replicas = replicas,
                            .microbatches = 2,
                            .split = std::move(split)},
                  .updates = config.train.updates};
    setup.devices = device::deal_devices(stages * replicas);
  }

  std::unique_ptr<Pipeline> pipeline(const Ranks& ranks, int rank, const Observer& observer) const {
    return std::make_unique<Pipeline>(setup, PipelineOptions{.processes = ranks[rank]}, observer);
  }

  // Before the model's third layer.
  void insert_layer(const std::string& kind, models::Forward forward) {
    model.layers.insert(model.layers.begin() + 2, {.kind = kind});
    model.forwards.insert(model.forwards.begin() + 2, std::move(forward));
  }
};

Observer silent() {
  return {.on_update = [](telemetry::StageUpdate) {}, .on_evaluation = [](telemetry::Evaluation) {}};
}

class Requests : public testing::TestWithParam<int> {};  // replicas

INSTANTIATE_TEST_SUITE_P(SpreadPipeline, Requests, testing::Values(1, 2), testing::PrintToStringParamName());

// Rank 0 sees every worker's updates; the request comes from the last rank.
TEST_P(Requests, AStopEndsAllWorkersAfterTheSameUpdate) {
  const int w = GetParam(), processes = 2 * w;
  const Bench bench(2, w, {2, 5});
  const Ranks ranks(processes, wire_kinds().front());
  std::mutex mutex;
  std::vector<std::int64_t> last(2 * w, -1);
  std::atomic<Pipeline*> asked{nullptr};
  Observer observer = silent();
  observer.on_update = [&](telemetry::StageUpdate update) {
    std::lock_guard lock(mutex);
    std::int64_t& before = last[2 * update.replica + update.stage];
    EXPECT_EQ(update.update, before + 1);
    before = update.update;
    if (Pipeline* pipeline = asked.load(); pipeline && update.update >= 5) pipeline->request_stop();
  };
  ranks.run([&](int rank) {
    const auto pipeline = bench.pipeline(ranks, rank, rank == 0 ? observer : silent());
    if (rank == processes - 1) asked = pipeline.get();
    pipeline->run();
    if (rank == processes - 1) {
      std::lock_guard lock(mutex);
      asked = nullptr;
    }
  });
  for (std::int64_t update : last) EXPECT_EQ(update, last[0]);
  EXPECT_GE(last[0], 5);
  EXPECT_LT(last[0], bench.config.train.updates - 1);
}

// Every stage gives the same cuts to its own process, of replica 0 alone.
TEST_P(Requests, ASaveIsOfTheSameCutInAllProcesses) {
  const int w = GetParam(), processes = 2 * w;
  Bench bench(2, w, {2, 5});
  bench.setup.spec.save_last = true;
  const Ranks ranks(processes, wire_kinds().front());
  std::mutex mutex;
  std::map<int, std::vector<std::int64_t>> cuts;  // by stage
  std::atomic<Pipeline*> asked{nullptr};
  std::atomic<bool> requested = false;
  ranks.run([&](int rank) {
    Observer observer = silent();
    observer.on_snapshot = [&, rank](const Snapshot& snapshot) {
      std::lock_guard lock(mutex);
      EXPECT_EQ(snapshot.stage, rank);  // of replica 0, whose workers are the first
      cuts[snapshot.stage].push_back(snapshot.update);
    };
    if (rank == 0) {
      observer.on_update = [&](const telemetry::StageUpdate& update) {
        std::lock_guard lock(mutex);
        Pipeline* pipeline = asked.load();
        if (pipeline && update.update >= 3 && !requested.exchange(true))
          pipeline->request_save(/*stop=*/true);
      };
    }
    const auto pipeline = bench.pipeline(ranks, rank, observer);
    if (rank == processes - 1) asked = pipeline.get();
    pipeline->run();
    if (rank == processes - 1) {
      std::lock_guard lock(mutex);
      asked = nullptr;
    }
  });
  ASSERT_EQ(cuts.size(), 2u);
  EXPECT_EQ(cuts[0], cuts[1]);
  EXPECT_GE(cuts[0].front(), 3);
  EXPECT_LT(cuts[0].back(), bench.config.train.updates);
}

// What each rank's run says.
std::vector<std::string> messages_of(const Bench& bench, const Ranks& ranks) {
  std::vector<std::string> messages(ranks.size());
  transport::on_all_ranks(ranks.size(), [&](int rank) {
    try {
      bench.pipeline(ranks, rank, silent())->run();
    } catch (const RunError& error) {
      messages[rank] = error.what();
    }
  });
  return messages;
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
  for (const std::string& message : messages_of(bench, Ranks(4, GetParam())))
    EXPECT_NE(message.find("stage 1: out of luck"), std::string::npos) << message;
}

// Stage 1 hangs in rank 1: rank 0 gives up and reports; only then may the other go on.
TEST_P(Failure, OfAWaitReportsTheWorkersHereAndThePeers) {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  Bench bench(2, 1, {2, 6});
  bench.insert_layer("gate", [&](auto, const models::Tensors& x, const auto&) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return open; });
    return x;
  });
  Bench hasty(2, 1, {2, 6});
  hasty.model = bench.model;
  hasty.config.pipeline.timeout = 0.2;
  const Ranks ranks(2, GetParam());
  std::vector<std::string> messages(2);
  transport::on_all_ranks(2, [&](int rank) {
    const auto pipeline = (rank == 0 ? hasty : bench).pipeline(ranks, rank, silent());
    std::thread opener([&] {
      if (rank != 0) return;
      FailureProbe::await(*pipeline);
      std::lock_guard lock(mutex);
      open = true;
      changed.notify_all();
    });
    try {
      pipeline->run();
    } catch (const RunError& error) {
      messages[rank] = error.what();
    }
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

// One process never comes to its pipeline.
TEST_P(Failure, BeforeOneHasAPipelineEndsTheOthers) {
  const Bench bench(2, 1, {2, 5});
  const Ranks ranks(2, GetParam());
  std::string message;
  transport::on_all_ranks(2, [&](int rank) {
    if (rank == 1) return ranks[1]->abort("no data here");
    try {
      bench.pipeline(ranks, rank, silent())->run();
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
    bench.pipeline(ranks, 0, silent());
    FAIL() << "3 workers in 2 processes";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("which 2 processes cannot share evenly"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace twobw::runtime
