// A run that continues from what another saved computes the same bits, from any cut.
#include <gtest/gtest.h>

#include "engine/device/cpu.h"
#include "engine/runtime/pipeline.h"
#include "engine/runtime/setup.h"
#include "tests/engine/runtime/recorder.h"
#include "tests/engine/runtime/short_config.h"

namespace twobw::runtime {
namespace {

struct ResumeCase {
  const char* schedule;
  std::vector<int> split;  // of 12 layers: embedding, 2 x 5, head
  int m = 4;
  int w = 1;
  bool predict = true;
  int e = 0;
  std::int64_t sync_updates = 0;
  bool second_gradient = true;
  int slack = 1;
  const char* optimizer = "adamw";
  const char* precision = "fp32";
  bool late_tie = false;
};

Config resume_config(const ResumeCase& given) {
  Config config = short_config(given.schedule, given.split, given.w, given.m);
  config.pipeline.microbatch = 1;
  config.pipeline.extra = given.e;
  config.pipeline.predict = given.predict;
  config.pipeline.second_gradient = given.second_gradient;
  config.pipeline.slack = given.slack;
  config.pipeline.late_tie = given.late_tie;
  config.pipeline.sync_updates = given.sync_updates;
  config.optimizer.name = given.optimizer;
  config.train.precision = given.precision;
  config.train.loss_scale = 1 << 22;  // at which gradients overflow, or soon
  config.train.loss_scale_window = 2;
  config.train.eval_every = 2;
  if (config.pipeline.workers() == 1 || config.train.precision != "fp32") put_on_one_core(config);
  return config;
}

class Resume : public testing::TestWithParam<ResumeCase> {};

TEST_P(Resume, ContinuesBitForBitFromEveryCut) {
  const Config config = resume_config(GetParam());
  Recorder whole;
  run_recorded(config, nullptr, whole);
  ASSERT_FALSE(whole.snapshots.empty());
  for (std::int64_t cut = 1; cut < config.train.updates; ++cut) expect_continues(config, whole, cut, whole);
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, Resume,
    testing::Values(
        ResumeCase{"2bw", {12}}, ResumeCase{"2bw", {6, 6}}, ResumeCase{"2bw", {4, 4, 4}, 3},
        ResumeCase{"2bw", {4, 4, 4}, 6},  // some microbatches on true weights
        ResumeCase{"2bw", {4, 4, 4}, 6, 1, true, 1}, ResumeCase{"2bw", {6, 6}, 4, 2},
        ResumeCase{"2bw", {12}, 3, 2}, ResumeCase{"2bw", {4, 4, 4}, 6, 2},
        ResumeCase{"2bw", {6, 6}, 4, 1, true, 0, 2}, ResumeCase{"2bw", {6, 6}, 4, 1, true, 0, 0, false},
        ResumeCase{"2bw", {6, 6}, 5, 1, true, 0, 0, true, 0},
        ResumeCase{"2bw", {6, 6}, 4, 1, true, 0, 0, true, 1, "muon"},
        ResumeCase{"2bw", {4, 4, 4}, 3, 1, true, 0, 0, true, 1, "adamw", "fp32", true},
        ResumeCase{"2bw", {4, 4, 4}, 7, 1, true, 0, 1, true, 2, "muon", "bf16", true},
        ResumeCase{"2bw", {6, 6}, 4, 1, false, 0, 0, true, 1, "adamw", "fp16", true},
        ResumeCase{"2bw", {12}, 4, 1, false}, ResumeCase{"2bw", {6, 6}, 4, 1, false},
        ResumeCase{"2bw", {4, 4, 4}, 3, 2, false}, ResumeCase{"2bw", {6, 6}, 4, 1, false, 0, 0, false},
        ResumeCase{"2bw", {6, 6}, 4, 1, false, 0, 1}, ResumeCase{"flush", {12}},
        ResumeCase{"flush", {6, 6}, 4, 2}, ResumeCase{"flush", {4, 4, 4}, 2}, ResumeCase{"gpipe", {12}},
        ResumeCase{"gpipe", {6, 6}}, ResumeCase{"gpipe", {4, 4, 4}, 3, 2},
        ResumeCase{"sequential", {6, 6}, 2}, ResumeCase{"stash", {6, 6}, 3},
        ResumeCase{"stash", {4, 4, 4}, 1}, ResumeCase{"stash", {4, 4, 4}, 2, 2},
        ResumeCase{"2bw", {4, 4, 4}, 3, 1, true, 0, 0, true, 1, "adamw", "bf16"},
        ResumeCase{"2bw", {6, 6}, 5, 2, true, 0, 0, true, 1, "muon", "bf16"},
        ResumeCase{"2bw", {6, 6}, 4, 1, false, 0, 1, true, 1, "adamw", "bf16"},
        ResumeCase{"flush", {12}, 4, 1, true, 0, 0, true, 1, "adamw", "bf16"},
        ResumeCase{"stash", {6, 6}, 3, 1, true, 0, 0, true, 1, "adamw", "bf16"},
        ResumeCase{"2bw", {4, 4, 4}, 6, 1, true, 0, 0, true, 1, "adamw", "fp16"},
        ResumeCase{"2bw", {6, 6}, 4, 2, false, 0, 0, true, 1, "adamw", "fp16"},
        ResumeCase{"flush", {6, 6}, 4, 1, true, 0, 0, true, 1, "adamw", "fp16"}));

class ResumeSharded : public testing::TestWithParam<ResumeCase> {};

TEST_P(ResumeSharded, ContinuesOneKindFromTheOther) {
  expect_kinds_continue_each_other(resume_config(GetParam()), {1, 2, 4});
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, ResumeSharded,
    testing::Values(ResumeCase{"2bw", {6, 6}, 2, 2}, ResumeCase{"2bw", {6, 6}, 5, 3},
                    ResumeCase{"2bw", {4, 4, 4}, 3, 2, false}, ResumeCase{"2bw", {6, 6}, 4, 2, false, 0, 1},
                    ResumeCase{"2bw", {6, 6}, 4, 2, true, 0, 2, false}, ResumeCase{"flush", {12}, 2, 3},
                    ResumeCase{"stash", {6, 6}, 2, 2},
                    ResumeCase{"2bw", {6, 6}, 4, 2, true, 0, 0, true, 1, "muon"},
                    ResumeCase{"2bw", {6, 6}, 2, 2, true, 0, 0, true, 1, "adamw", "bf16"},
                    ResumeCase{"2bw", {6, 6}, 4, 2, false, 0, 0, true, 1, "adamw", "fp16"}));

TEST(ResumeTest, UnderFlushAnotherSplitContinuesWithTheSameLosses) {
  Config config = resume_config({"flush", {6, 6}}), other = resume_config({"flush", {3, 4, 5}});
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
  Config config = resume_config({"2bw", {6, 6}});
  config.train.updates = 1000;
  runtime::Setup setup = prepare(config);
  Recorder recorder;
  Observer observer = recorder.observer();
  Pipeline* running = nullptr;
  observer.on_update = [&, add = observer.on_update](telemetry::StageUpdate update) {
    if (update.update == 3 && update.stage == 0) running->request_save(/*stop=*/true);
    add(std::move(update));
  };
  Pipeline pipeline(setup.config, setup.model, *setup.training, *setup.validation, setup.pipeline(),
                    observer);
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
