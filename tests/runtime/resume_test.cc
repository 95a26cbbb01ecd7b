// A run that continues from what another saved computes the same bits, from any cut.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "device/cores.h"
#include "device/cpu.h"
#include "runtime/pipeline.h"
#include "runtime/setup.h"
#include "tests/runtime/recorder.h"

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
  bool extrapolates = false;
  const char* optimizer = "adamw";
  const char* precision = "fp32";
  bool shard_state = false;
};

Config resume_config(const ResumeCase& given) {
  Config config;
  config.model = {
      .layers = 2, .width = 16, .heads = 2, .vocab = 37, .context = 8, .tied = true, .dropout = 0.1};
  config.pipeline.schedule = schedule::parse_kind(given.schedule);
  config.pipeline.stages = static_cast<int>(given.split.size());
  config.pipeline.split = given.split;
  config.pipeline.replicas = given.w;
  config.pipeline.microbatch = 1;
  config.pipeline.microbatches = given.m;
  config.pipeline.extra = given.e;
  config.pipeline.predict = given.predict;
  config.pipeline.second_gradient = given.second_gradient;
  config.pipeline.slack = given.slack;
  config.pipeline.sync_updates = given.sync_updates;
  config.pipeline.shard_state = given.shard_state;
  config.optimizer.name = given.optimizer;
  config.optimizer.warmup = 2;
  config.optimizer.lr = 1e-2;
  config.optimizer.clip = 0.5;
  if (given.extrapolates) {
    config.optimizer.extrapolate_weights = {1.0};
    config.optimizer.extrapolate_update = {0.5};
  }
  config.train.precision = given.precision;
  config.train.loss_scale = 1 << 22;  // at which gradients overflow, or soon
  config.train.loss_scale_window = 2;
  config.train.updates = 6;
  config.train.eval_every = 2;
  config.train.eval_microbatches = 2;
  // A stage with all cores would start a team of threads, which the thread sanitizer cannot follow.
  // With 16 bits GPUs would be taken, where there are any.
  const int workers = config.pipeline.stages * given.w;
  if (workers == 1 || config.train.precision != "fp32")
    config.devices.assign(static_cast<std::size_t>(workers), device::core_names().front());
  return config;
}

class Resume : public testing::TestWithParam<ResumeCase> {};

TEST_P(Resume, ContinuesBitForBitFromEveryCut) {
  const Config config = resume_config(GetParam());
  Recorder whole;
  run_recorded(config, nullptr, whole);
  ASSERT_FALSE(whole.snapshots.empty());
  for (std::int64_t cut = 1; cut < config.train.updates; ++cut) {
    SCOPED_TRACE(fmt::format("from the cut after {} updates", cut));
    Recorder tail;
    run_recorded(config, restored_at(whole, cut), tail);
    expect_same_tail(whole, tail, cut);
    expect_same_snapshots(whole, tail, cut);
  }
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
        ResumeCase{"2bw", {6, 6}, 4, 1, true, 0, 0, true, 1, false, "muon"},
        ResumeCase{"2bw", {12}, 4, 1, false}, ResumeCase{"2bw", {6, 6}, 4, 1, false},
        ResumeCase{"2bw", {4, 4, 4}, 3, 2, false}, ResumeCase{"2bw", {6, 6}, 4, 1, false, 0, 0, false},
        ResumeCase{"2bw", {6, 6}, 4, 1, false, 0, 1, true, 1, true}, ResumeCase{"flush", {12}},
        ResumeCase{"flush", {6, 6}, 4, 2}, ResumeCase{"flush", {4, 4, 4}, 2}, ResumeCase{"gpipe", {12}},
        ResumeCase{"gpipe", {6, 6}}, ResumeCase{"gpipe", {4, 4, 4}, 3, 2},
        ResumeCase{"sequential", {6, 6}, 2}, ResumeCase{"stash", {6, 6}, 3},
        ResumeCase{"stash", {4, 4, 4}, 1}, ResumeCase{"stash", {4, 4, 4}, 2, 2},
        ResumeCase{"2bw", {4, 4, 4}, 3, 1, true, 0, 0, true, 1, false, "adamw", "bf16"},
        ResumeCase{"2bw", {6, 6}, 5, 2, true, 0, 0, true, 1, false, "muon", "bf16"},
        ResumeCase{"2bw", {6, 6}, 4, 1, false, 0, 1, true, 1, true, "adamw", "bf16"},
        ResumeCase{"flush", {12}, 4, 1, true, 0, 0, true, 1, false, "adamw", "bf16"},
        ResumeCase{"stash", {6, 6}, 3, 1, true, 0, 0, true, 1, false, "adamw", "bf16"},
        ResumeCase{"2bw", {4, 4, 4}, 6, 1, true, 0, 0, true, 1, false, "adamw", "fp16"},
        ResumeCase{"2bw", {6, 6}, 4, 2, false, 0, 0, true, 1, false, "adamw", "fp16"},
        ResumeCase{"flush", {6, 6}, 4, 1, true, 0, 0, true, 1, false, "adamw", "fp16"}));

// What replicas that share the optimizer's state save is what others save, and each goes on from either.
class ResumeSharded : public testing::TestWithParam<ResumeCase> {};

TEST_P(ResumeSharded, ContinuesOneKindFromTheOther) {
  Config config = resume_config(GetParam()), sharded = config;
  sharded.pipeline.shard_state = true;
  Recorder whole, shared;
  run_recorded(config, nullptr, whole);
  run_recorded(sharded, nullptr, shared);
  ASSERT_FALSE(whole.snapshots.empty());
  expect_same_tail(whole, shared, 0);
  expect_same_snapshots(whole, shared, 0);
  EXPECT_EQ(whole.snapshots.size(), shared.snapshots.size());
  for (const std::int64_t cut : {1, 2, 4}) {
    SCOPED_TRACE(fmt::format("from the cut after {} updates", cut));
    Recorder to_shared, to_whole;
    run_recorded(sharded, restored_at(whole, cut), to_shared);
    expect_same_tail(whole, to_shared, cut);
    expect_same_snapshots(whole, to_shared, cut);
    run_recorded(config, restored_at(shared, cut), to_whole);
    expect_same_tail(whole, to_whole, cut);
    expect_same_snapshots(whole, to_whole, cut);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, ResumeSharded,
    testing::Values(ResumeCase{"2bw", {6, 6}, 2, 2}, ResumeCase{"2bw", {6, 6}, 5, 3},
                    ResumeCase{"2bw", {4, 4, 4}, 3, 2, false},
                    ResumeCase{"2bw", {6, 6}, 4, 2, false, 0, 1, true, 1, true},
                    ResumeCase{"2bw", {6, 6}, 4, 2, true, 0, 2, false}, ResumeCase{"flush", {12}, 2, 3},
                    ResumeCase{"stash", {6, 6}, 2, 2},
                    ResumeCase{"2bw", {6, 6}, 4, 2, true, 0, 0, true, 1, false, "muon"},
                    ResumeCase{"2bw", {6, 6}, 2, 2, true, 0, 0, true, 1, false, "adamw", "bf16"},
                    ResumeCase{"2bw", {6, 6}, 4, 2, false, 0, 0, true, 1, false, "adamw", "fp16"}));

// With as many cores a stage: sums over cores round otherwise.
Config on_single_cores(Config config) {
  config.devices.assign(static_cast<std::size_t>(config.pipeline.stages), device::core_names().front());
  return config;
}

TEST(ResumeTest, UnderFlushAnotherSplitContinuesWithTheSameLosses) {
  const Config config = on_single_cores(resume_config({"flush", {6, 6}}));
  Recorder whole, tail;
  run_recorded(config, nullptr, whole);
  run_recorded(on_single_cores(resume_config({"flush", {3, 4, 5}})), restored_at(whole, 3), tail);
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
