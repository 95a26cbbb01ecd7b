// A run resumed from any checkpoint computes the same bits.
#include <gtest/gtest.h>

#include "engine/device/device.h"
#include "engine/runtime/pipeline.h"
#include "engine/runtime/setup.h"
#include "tests/engine/runtime/recorder.h"
#include "tests/engine/runtime/settings.h"

namespace twobw::runtime {
namespace {

class Resume : public testing::TestWithParam<std::string> {};

// A small model, so that every update may be a cut.
Config resumed_config(const std::string& settings) {
  Config config = short_config("model.width=16 model.heads=2 model.dropout=0.1 pipeline.microbatch=1 " +
                               std::string("train.updates=5 train.eval_every=2 ") + settings);
  if (config.pipeline.workers() == 1) put_on_one_core(config);
  return config;
}

TEST_P(Resume, ContinuesBitForBitFromEveryCut) {
  const Config config = resumed_config(GetParam());
  Recorder whole;
  run_recorded(config, nullptr, whole);
  ASSERT_FALSE(whole.snapshots.empty());
  for (std::int64_t cut = 1; cut < config.train.updates; ++cut) expect_continues(config, whole, cut, whole);
}

INSTANTIATE_TEST_SUITE_P(Pairs, Resume,
                         testing::ValuesIn(covering({factors::kSchedules,
                                                     {"pipeline.split=[6,6]", "pipeline.split=[12]",
                                                      "pipeline.split=[4,4,4]"},
                                                     {"pipeline.microbatches=6", "pipeline.microbatches=2",
                                                      "pipeline.microbatches=3"},
                                                     {"", "pipeline.replicas=2"},
                                                     {"", "pipeline.extra=1"},
                                                     {"", "pipeline.sync_updates=2"},
                                                     factors::kGradientBuffers,
                                                     factors::kSlack,
                                                     factors::kTies,
                                                     {"", "optimizer.name=muon"},
                                                     factors::kPrecisions})));

class ResumeSharded : public testing::TestWithParam<std::string> {};

TEST_P(ResumeSharded, ContinuesOneKindFromTheOther) {
  expect_kinds_continue_each_other(resumed_config(GetParam()), {1, 4});
}

INSTANTIATE_TEST_SUITE_P(Pairs, ResumeSharded,
                         testing::ValuesIn(covering({{"", "pipeline.predict=false",
                                                      "pipeline.schedule=flush"},
                                                     {"pipeline.replicas=2", "pipeline.replicas=3"},
                                                     {"pipeline.split=[6,6]", "pipeline.split=[12]"},
                                                     {"pipeline.microbatches=2", "pipeline.microbatches=5"},
                                                     {"", "pipeline.sync_updates=2"},
                                                     factors::kGradientBuffers,
                                                     {"", "optimizer.name=muon"},
                                                     factors::kPrecisions})));

TEST(ResumeTest, UnderFlushAnotherSplitContinuesWithTheSameLosses) {
  Config config = resumed_config("pipeline.schedule=flush pipeline.split=[6,6]"),
         other = resumed_config("pipeline.schedule=flush pipeline.split=[3,4,5]");
  put_on_one_core(config);
  put_on_one_core(other);
  Recorder whole, tail;
  run_recorded(config, nullptr, whole);
  run_recorded(other, restored_at(whole, 3), tail);
  for (std::int64_t update = 3; update < config.train.updates; ++update) {
    EXPECT_EQ(bits(*tail.updates.at({update, 0, 2}).loss), bits(*whole.updates.at({update, 0, 1}).loss));
  }
}

TEST(ResumeTest, ARunThatIsAskedToSavesAndStopsOneBatchLater) {
  device::initialize();
  Config config = resumed_config("pipeline.split=[6,6]");
  config.train.updates = 1000;
  runtime::Setup setup = prepare(config);
  Recorder recorder;
  Observer observer = recorder.observer();
  Pipeline* running = nullptr;
  observer.on_update = [&, add = observer.on_update](telemetry::StageUpdate update) {
    if (update.update == 3 && update.stage == 0) running->request_save(/*stop=*/true);
    add(std::move(update));
  };
  Pipeline pipeline(setup, {}, observer);
  running = &pipeline;
  pipeline.run();
  recorder.finish();
  ASSERT_EQ(recorder.snapshots.size(), 2u);  // of both stages
  const std::int64_t cut = recorder.snapshots.begin()->first.first;
  EXPECT_EQ(recorder.snapshots.rbegin()->first.first, cut);
  EXPECT_EQ(std::get<0>(recorder.updates.rbegin()->first), cut);  // the batch that made what was saved
  EXPECT_LT(cut, 20);
}

}  // namespace
}  // namespace twobw::runtime
