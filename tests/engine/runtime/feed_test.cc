// Microbatches read ahead equal microbatches read on demand.
#include "engine/runtime/microbatches.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "engine/data/sources.h"
#include "engine/device/memory.h"
#include "tests/engine/runtime/bench.h"

namespace twobw::runtime {
namespace {
namespace feeding {

using data::Batch;
using data::BatchFields;
using data::Field;

Config config_with(int prefetch) {
  Config config;
  config.model = {.layers = 2, .width = 16, .heads = 2, .vocab = 48, .context = 8};
  config.pipeline.replicas = 2;
  config.pipeline.microbatch = 2;
  config.pipeline.microbatches = 4;
  config.pipeline.prefetch = prefetch;
  config.train.updates = 4;
  config.train.eval_every = 0;
  return config;
}

constexpr BatchFields kAll = {Field::Tokens, Field::Targets, Field::LossScale};

// Synthetic text that cannot be read from sequence `from` on. Not dense, so that targets are counted.
class Failing final : public data::Source {
 public:
  explicit Failing(std::int64_t from) : from_(from) {}
  Batch random(const data::Draw& draw, int b, int length, BatchFields fields) const override {
    if (draw.first >= from_) fail_run("the disk is gone");
    return text_->random(draw, b, length, fields);
  }
  Batch sequential(std::int64_t index, int b, int length, BatchFields fields) const override {
    return text_->sequential(index, b, length, fields);
  }
  bool is_dense() const override { return false; }
  std::string describe() const override { return "failing"; }

 private:
  std::int64_t from_;
  std::unique_ptr<data::Source> text_ = data::make_synthetic(48);
};

TEST(FeedTest, GivesWhatIsThere) {
  const auto source = data::make_synthetic(48);
  for (const int prefetch : {0, 1, 5}) {
    const Config config = config_with(prefetch);
    MicrobatchSource microbatches(config, *source, *source, kAll);
    Feed feed(config, microbatches, /*replica=*/1);
    for (std::int64_t k = 0; k < 12; ++k) {
      const models::MicrobatchContext expected = microbatches.training(1, k), found = feed.take(k);
      EXPECT_EQ(found.update, expected.update);
      EXPECT_EQ(found.microbatch, expected.microbatch);
      EXPECT_EQ(found.seed, expected.seed);
      EXPECT_TRUE(found.training);
      for (const Field field : {Field::Tokens, Field::Targets, Field::LossScale})
        EXPECT_TRUE(at::equal(found.batch[field], expected.batch[field]));
    }
    EXPECT_GT(feed.waited(), 0);
  }
}

TEST(FeedTest, CountsWhatIsTakenAndNotWhatIsRead) {
  device::initialize();
  const auto source = data::make_synthetic(48);
  for (const int prefetch : {0, 3}) {
    const Config config = config_with(prefetch);
    device::MemoryPool pool;
    device::PoolScope scope(pool);
    const MicrobatchSource microbatches(config, *source, *source, kAll);
    Feed feed(config, microbatches, 0);
    const auto bytes = static_cast<std::int64_t>(8 * (2 * 8 + 2 * 8 + 1));
    std::vector<models::MicrobatchContext> taken;
    for (std::int64_t k = 0; k < 3; ++k) {
      taken.push_back(feed.take(k));
      EXPECT_EQ(pool.live_bytes(Term::Inputs), (k + 1) * bytes);
      EXPECT_EQ(pool.live_bytes(), (k + 1) * bytes);
    }
  }
}

TEST(FeedTest, ARunWhoseDataCannotBeReadEndsAndSaysSo) {
  device::initialize();
  for (const int prefetch : {0, 2}) {
    const Config config = config_with(prefetch);
    schedule::Spec spec{.shape = config.pipeline, .updates = config.train.updates};
    spec.shape.split = {5, 7};
    const auto source = std::make_shared<const Failing>(37);
    const runtime::Setup setup{.config = config,
                               .spec = spec,
                               .model = models::build(config.model),
                               .training = source,
                               .validation = source,
                               .devices = device::deal_devices(spec.shape.workers())};
    const Observer observer{.on_update = [](const telemetry::StageUpdate& update) {
      EXPECT_GE(update.data_wait, 0);
      EXPECT_LE(update.data_wait, update.waiting);
    }};
    Pipeline pipeline(setup, {}, observer);
    const std::string message = message_of(pipeline);
    EXPECT_NE(message.find("the disk is gone"), std::string::npos) << message;
    EXPECT_EQ(message.find("replica "), 0u) << message;
  }
}

}  // namespace feeding
}  // namespace
}  // namespace twobw::runtime
