// Failures and reports of pipelines in one process.
#include "engine/runtime/pipeline.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "tests/engine/runtime/bench.h"

namespace twobw::runtime {
namespace {

// The report of a run in which every stage 1 hangs in its first forward: stage 0 times out waiting for the
// gradient. The gate opens only after the report.
std::string report_of_stuck_run(int replicas) {
  Bench bench(2, replicas, {2, 6});
  bench.config.pipeline.timeout = 0.05;
  Gate gate;
  bench.insert_layer("gate", gate.forward());
  const auto pipeline = bench.pipeline();
  std::string message;
  std::thread run([&] { message = message_of(*pipeline); });
  FailureProbe::await(*pipeline);
  gate.open();
  run.join();
  return message;
}

TEST(PipelineTest, StuckRunReportsEveryWorker) {
  const std::string message = report_of_stuck_run(1);
  EXPECT_NE(message.find("the pipeline is stuck; stage 0: no gradient of microbatch 0"), std::string::npos)
      << message;
  EXPECT_NE(message.find("stage 0: RecvGradient microbatch 0 (batch 0)"), std::string::npos) << message;
  EXPECT_NE(message.find("stage 1: Forward microbatch 0 (batch 0) on W(0)"), std::string::npos) << message;
}

TEST(PipelineTest, StuckRunReportsWorkersOfAllReplicas) {
  const std::string message = report_of_stuck_run(2);
  EXPECT_NE(message.find("the pipeline is stuck; replica "), std::string::npos) << message;
  for (const char* worker : {"replica 0 stage 0: ", "replica 1 stage 0: ", "replica 0 stage 1: Forward ",
                             "replica 1 stage 1: Forward "})
    EXPECT_NE(message.find(worker), std::string::npos) << worker << message;
}

TEST(PipelineTest, ErrorInOneStageEndsAllWorkers) {
  for (const int replicas : {1, 2}) {
    Bench bench(2, replicas, {2, 6});
    bench.insert_layer("thrower", [](auto, const auto&, const auto&) -> models::Tensors {
      throw std::runtime_error("out of luck");
    });
    const std::string message = message_of(*bench.pipeline());
    if (replicas == 1) {
      EXPECT_EQ(message, "stage 1: out of luck");
    } else {
      EXPECT_TRUE(message == "replica 0 stage 1: out of luck" || message == "replica 1 stage 1: out of luck")
          << message;
    }
  }
}

// Replica 0 alone evaluates.
TEST(PipelineTest, EventsNameTheReplica) {
  Bench bench(2, 2, {2, 5}, /*updates=*/3);
  bench.setup.spec.evaluate_every = 1;
  int evaluations = 0;
  Observer observer = silent();
  observer.on_evaluation = [&](telemetry::Evaluation) { ++evaluations; };
  const auto pipeline = bench.pipeline({.record_events = true}, observer);
  pipeline->run();
  std::map<std::pair<int, int>, int> forwards, evaluates;
  for (const telemetry::Event& event : pipeline->events()) {
    forwards[{event.replica, event.stage}] += event.instruction.op == schedule::Op::Forward;
    evaluates[{event.replica, event.stage}] += event.instruction.op == schedule::Op::Evaluate;
  }
  ASSERT_EQ(forwards.size(), 4u);
  for (const auto& [worker, count] : forwards) EXPECT_EQ(count, 3 * 2);
  for (const auto& [worker, count] : evaluates) EXPECT_EQ(count, worker.first == 0 ? 3 : 0);
  EXPECT_EQ(evaluations, 3);
}

TEST(PipelineTest, MemoryLimitErrorNamesTheLargestTerm) {
  Bench bench(2, 1, {4, 3}, /*updates=*/3);
  bench.config.pipeline.memory_limit = 1e-5;  // GiB: weights and their state need more
  const std::string message = message_of(*bench.pipeline());
  EXPECT_NE(message.find("of pipeline.memory_limit, now that"), std::string::npos) << message;
  EXPECT_EQ(message.find("stage "), 0u) << message;
  bench.config.pipeline.memory_limit = 1;
  EXPECT_EQ(message_of(*bench.pipeline()), "");
}

}  // namespace
}  // namespace twobw::runtime
