// What happens when something goes wrong in one stage: the run ends, and says who waited for what.
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>

#include "core/base/error.h"
#include "engine/data/sources.h"
#include "engine/device/cpu.h"
#include "engine/models/model.h"
#include "engine/runtime/pipeline.h"
#include "tests/engine/runtime/failure_probe.h"

namespace twobw::runtime {
namespace {

Config brief_config() {
  Config config;
  config.model = {.layers = 1, .width = 8, .heads = 2, .vocab = 17, .context = 4};
  config.pipeline.stages = 2;
  config.pipeline.microbatch = 1;
  config.pipeline.microbatches = 2;
  config.train.updates = 3;
  config.train.eval_every = 0;
  return config;
}

Setup setup_for(const Config& config, const models::Model& model, std::vector<int> split) {
  const std::shared_ptr<const data::Source> source = data::make_synthetic(config.model.vocab);
  return {.config = config,
          .spec = {.shape = {.schedule = schedule::Kind::TwoBW,
                             .stages = config.pipeline.stages,
                             .replicas = config.pipeline.replicas,
                             .microbatches = config.pipeline.microbatches,
                             .split = std::move(split)},
                   .updates = config.train.updates},
          .model = model,
          .training = source,
          .validation = source,
          .devices = device::deal_devices(config.pipeline.stages * config.pipeline.replicas)};
}

Observer nobody() {
  return {.on_update = [](telemetry::StageUpdate) {}, .on_evaluation = [](telemetry::Evaluation) {}};
}

std::string message_of(Pipeline& pipeline) {
  try {
    pipeline.run();
  } catch (const RunError& error) {
    return error.what();
  }
  return "";
}

// A layer without parameters, before the model's third.
void insert_layer(models::Model& model, const std::string& kind, models::Forward forward) {
  model.layers.insert(model.layers.begin() + 2, {.kind = kind});
  model.forwards.insert(model.forwards.begin() + 2, std::move(forward));
}

// MicrobatchSource its input on, but not before it is let go.
class Gate {
 public:
  models::Tensors pass(const models::Tensors& x) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
    return x;
  }
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

// What a run says whose stages 1 hang in their first forward: stage 0 waits for the gradient, gives up,
// and the report is made; only then may the others go on.
std::string message_of_stuck(const Config& config) {
  device::initialize();
  models::Model model = models::build(config.model);
  Gate gate;
  insert_layer(model, "gate", [&](auto, const models::Tensors& x, const auto&) { return gate.pass(x); });
  Observer observer = nobody();
  const runtime::Setup setup = setup_for(config, model, {2, 6});
  Pipeline pipeline(setup, {}, observer);
  std::string message;
  std::thread run([&] { message = message_of(pipeline); });
  FailureProbe::await(pipeline);
  gate.open();
  run.join();
  return message;
}

TEST(PipelineTest, AStuckPipelineReportsWhatEveryWorkerWasDoing) {
  Config config = brief_config();
  config.pipeline.timeout = 0.05;
  const std::string message = message_of_stuck(config);
  EXPECT_NE(message.find("the pipeline is stuck; stage 0: no gradient of microbatch 0"), std::string::npos)
      << message;
  EXPECT_NE(message.find("stage 0: RecvGradient microbatch 0 (batch 0)"), std::string::npos) << message;
  EXPECT_NE(message.find("stage 1: Forward microbatch 0 (batch 0) on W(0)"), std::string::npos) << message;
}

TEST(PipelineTest, AStuckPipelineReportsTheWorkersOfAllReplicas) {
  Config config = brief_config();
  config.pipeline.timeout = 0.05;
  config.pipeline.replicas = 2;
  const std::string message = message_of_stuck(config);
  EXPECT_NE(message.find("the pipeline is stuck; replica "), std::string::npos) << message;
  for (const char* worker : {"replica 0 stage 0: ", "replica 1 stage 0: ", "replica 0 stage 1: Forward ",
                             "replica 1 stage 1: Forward "})
    EXPECT_NE(message.find(worker), std::string::npos) << worker << message;
}

void insert_thrower(models::Model& model) {
  insert_layer(model, "thrower", [](auto, const auto&, const auto&) -> models::Tensors {
    throw std::runtime_error("out of luck");
  });
}

TEST(PipelineTest, AnErrorInOneStageEndsAllOfThemAtOnce) {
  device::initialize();
  const Config config = brief_config();
  models::Model model = models::build(config.model);
  insert_thrower(model);
  const runtime::Setup setup = setup_for(config, model, {2, 6});
  Pipeline pipeline(setup, {}, nobody());
  EXPECT_EQ(message_of(pipeline), "stage 1: out of luck");
}

TEST(PipelineTest, WithReplicasTheReportNamesThem) {
  device::initialize();
  Config config = brief_config();
  config.pipeline.replicas = 2;
  models::Model model = models::build(config.model);
  insert_thrower(model);
  const runtime::Setup setup = setup_for(config, model, {2, 6});
  Pipeline pipeline(setup, {}, nobody());
  const std::string message = message_of(pipeline);
  EXPECT_TRUE(message == "replica 0 stage 1: out of luck" || message == "replica 1 stage 1: out of luck")
      << message;
}

TEST(PipelineTest, AllReplicasHoldTheSameWeightsAndHaveMoved) {
  device::initialize();
  Config config = brief_config();
  config.pipeline.replicas = 3;
  const models::Model model = models::build(config.model);
  const runtime::Setup setup = setup_for(config, model, {2, 5});
  Pipeline pipeline(setup, {}, nobody());
  pipeline.run();
  for (int r = 0; r < 2; ++r) {
    const at::Tensor& first = pipeline.stage(r).newest_weights();
    const at::Tensor initial = at::zeros_like(first);
    weights::initialize(pipeline.stage(r).layout(), initial, config.train.seed);
    EXPECT_FALSE(first.equal(initial));
    for (int replica : {1, 2}) EXPECT_TRUE(pipeline.stage(r, replica).newest_weights().equal(first));
  }
}

// The events say who did what; replica 0 alone evaluates.
TEST(PipelineTest, EventsNameTheReplica) {
  device::initialize();
  Config config = brief_config();
  config.pipeline.replicas = 2;
  config.train.eval_microbatches = 1;
  const models::Model model = models::build(config.model);
  runtime::Setup setup = setup_for(config, model, {2, 5});
  setup.spec.evaluate_every = 1;
  int evaluations = 0;
  Observer observer = nobody();
  observer.on_evaluation = [&](telemetry::Evaluation) { ++evaluations; };
  Pipeline pipeline(setup, {.record_events = true}, observer);
  pipeline.run();
  std::map<std::pair<int, int>, int> forwards, evaluates;
  for (const telemetry::Event& event : pipeline.events()) {
    forwards[{event.replica, event.stage}] += event.instruction.op == schedule::Op::Forward;
    evaluates[{event.replica, event.stage}] += event.instruction.op == schedule::Op::Evaluate;
  }
  ASSERT_EQ(forwards.size(), 4u);
  for (const auto& [worker, count] : forwards) EXPECT_EQ(count, 3 * 2);
  for (const auto& [worker, count] : evaluates) EXPECT_EQ(count, worker.first == 0 ? 3 : 0);
  EXPECT_EQ(evaluations, 3);
}

class Stop : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(PipelineTest, Stop, testing::Values(1, 2), testing::PrintToStringParamName());

TEST_P(Stop, EndsAllWorkersAfterTheSameUpdate) {
  device::initialize();
  Config config = brief_config();
  config.train.updates = 1'000'000;
  config.pipeline.replicas = GetParam();
  const models::Model model = models::build(config.model);
  std::mutex mutex;
  std::vector<std::int64_t> last(2 * GetParam(), -1);
  std::atomic<Pipeline*> running{nullptr};
  Observer observer = nobody();
  observer.on_update = [&](telemetry::StageUpdate update) {
    {
      std::lock_guard lock(mutex);
      std::int64_t& before = last[2 * update.replica + update.stage];
      EXPECT_EQ(update.update, before + 1);
      before = update.update;
    }
    if (update.update == 5) running.load()->request_stop();
  };
  const runtime::Setup setup = setup_for(config, model, {2, 5});
  Pipeline pipeline(setup, {}, observer);
  running = &pipeline;
  pipeline.run();
  for (std::int64_t update : last) EXPECT_EQ(update, last[0]);
  EXPECT_GE(last[0], 5);
  EXPECT_LT(last[0], 20);
}

TEST(PipelineTest, AStageThatOutgrowsTheMemoryLimitSaysWhatGrew) {
  Config config = brief_config();
  config.pipeline.memory_limit = 1e-5;  // some 10 KiB, which weights and their state exceed at once
  const models::Model model = models::build(config.model);
  const runtime::Setup setup = setup_for(config, model, {4, 3});
  Pipeline pipeline(setup, {}, nobody());
  const std::string message = message_of(pipeline);
  EXPECT_NE(message.find("of pipeline.memory_limit, now that"), std::string::npos) << message;
  EXPECT_EQ(message.find("stage "), 0u) << message;

  config.pipeline.memory_limit = 1;
  const runtime::Setup roomy_setup = setup_for(config, model, {4, 3});
  Pipeline roomy(roomy_setup, {}, nobody());
  EXPECT_EQ(message_of(roomy), "");
}

}  // namespace
}  // namespace twobw::runtime
