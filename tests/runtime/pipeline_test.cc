// What happens when something goes wrong in one stage: the run ends, and says who waited for what.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "base/error.h"
#include "data/sources.h"
#include "device/cpu.h"
#include "models/model.h"
#include "runtime/pipeline.h"

namespace twobw::runtime {
namespace {

Config small_config() {
  Config config;
  config.model = {.layers = 1, .width = 8, .heads = 2, .vocab = 17, .context = 4};
  config.pipeline.stages = 2;
  config.pipeline.microbatch = 1;
  config.pipeline.microbatches = 2;
  config.train.updates = 3;
  config.train.eval_every = 0;
  return config;
}

PipelineSetup setup_for(const Config& config, std::vector<int> split) {
  return {.spec = {.kind = schedule::Kind::TwoBW,
                   .stages = config.pipeline.stages,
                   .microbatches = config.pipeline.microbatches,
                   .updates = config.train.updates},
          .split = std::move(split),
          .recompute = std::vector<bool>(config.pipeline.stages, false),
          .cores = device::deal_cores(config.pipeline.stages)};
}

Listener nobody() {
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

// Passes its input on, but not before it is let go.
class Gate : public models::Layer {
 public:
  std::string kind() const override { return "gate"; }
  std::vector<models::ParameterSpec> parameters() const override { return {}; }
  models::Tensors forward(std::span<const at::Tensor>, const models::Tensors& x,
                          const models::Pass&) const override {
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
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool open_ = false;
};

TEST(PipelineTest, AStuckPipelineReportsWhatEveryWorkerWasDoing) {
  device::initialize();
  Config config = small_config();
  config.pipeline.timeout = 0.05;
  models::LayerList model = models::build(config.model);
  auto gate = std::make_unique<Gate>();
  Gate& handle = *gate;
  model.insert(model.begin() + 2, std::move(gate));
  const auto source = data::make_synthetic(config.model.vocab);

  // Stage 1 hangs in its forward. Stage 0 waits for the gradient, gives up, and the report is made;
  // only then may stage 1 go on.
  Listener listener = nobody();
  Pipeline pipeline(config, model, *source, *source, setup_for(config, {2, 5}), listener);
  std::string message;
  std::thread run([&] { message = message_of(pipeline); });
  pipeline.await_failure();
  handle.open();
  run.join();

  EXPECT_NE(message.find("the pipeline is stuck; stage 0: no gradient of microbatch 0"), std::string::npos)
      << message;
  EXPECT_NE(message.find("stage 0: RecvGradient microbatch 0 (batch 0)"), std::string::npos) << message;
  EXPECT_NE(message.find("stage 1: Forward microbatch 0 (batch 0) on W(0)"), std::string::npos) << message;
}

class Thrower : public models::Layer {
 public:
  std::string kind() const override { return "thrower"; }
  std::vector<models::ParameterSpec> parameters() const override { return {}; }
  models::Tensors forward(std::span<const at::Tensor>, const models::Tensors&,
                          const models::Pass&) const override {
    throw std::runtime_error("out of luck");
  }
};

TEST(PipelineTest, AnErrorInOneStageEndsAllOfThemAtOnce) {
  device::initialize();
  const Config config = small_config();
  models::LayerList model = models::build(config.model);
  model.insert(model.begin() + 2, std::make_unique<Thrower>());
  const auto source = data::make_synthetic(config.model.vocab);
  Pipeline pipeline(config, model, *source, *source, setup_for(config, {2, 5}), nobody());
  EXPECT_EQ(message_of(pipeline), "stage 1: out of luck");
}

TEST(PipelineTest, AStopEndsAllStagesAfterTheSameUpdate) {
  device::initialize();
  Config config = small_config();
  config.train.updates = 1'000'000;
  const models::LayerList model = models::build(config.model);
  const auto source = data::make_synthetic(config.model.vocab);
  std::mutex mutex;
  std::vector<std::int64_t> last(2, -1);
  std::atomic<Pipeline*> running{nullptr};
  Listener listener = nobody();
  listener.on_update = [&](telemetry::StageUpdate update) {
    {
      std::lock_guard lock(mutex);
      EXPECT_EQ(update.update, last[update.stage] + 1);
      last[update.stage] = update.update;
    }
    if (update.update == 5) running.load()->request_stop();
  };
  Pipeline pipeline(config, model, *source, *source, setup_for(config, {2, 4}), listener);
  running = &pipeline;
  pipeline.run();
  EXPECT_EQ(last[0], last[1]);
  EXPECT_GE(last[0], 5);
  EXPECT_LT(last[0], 20);
}

}  // namespace
}  // namespace twobw::runtime
