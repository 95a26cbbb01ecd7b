#include "app/measure/trial_run.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <compare>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <vector>

#include "core/base/error.h"
#include "core/schedule/spec.h"
#include "engine/device/cpu.h"
#include "engine/models/model.h"
#include "engine/runtime/setup.h"

namespace twobw::measure {
namespace {

// A microbatch that came to the head.
struct HeadPass {
  bool training = false;
  std::int64_t update = 0, microbatch = 0;

  friend auto operator<=>(const HeadPass&, const HeadPass&) = default;
};

// All of them, of a family that is gpt but for the record it keeps.
class HeadPasses {
 public:
  static HeadPasses& of_watched_gpt() {
    static HeadPasses passes;
    return passes;
  }
  void add(const models::MicrobatchContext& pass) {
    std::lock_guard lock(mutex_);
    passes_.push_back({pass.training, pass.update, pass.microbatch});
  }
  // Since the last time; sorted.
  std::vector<HeadPass> take() {
    std::lock_guard lock(mutex_);
    std::sort(passes_.begin(), passes_.end());
    return std::exchange(passes_, {});
  }

 private:
  HeadPasses() {
    models::add_family(
        {.name = "watched_gpt", .describe = [](const ModelConfig& config) { return as_gpt(config).layers; }},
        [this](const ModelConfig& config, const architecture::Layer& layer) {
          return watched(config, layer.kind);
        });
  }

  static models::Model as_gpt(ModelConfig config) {
    config.family = "gpt";
    return models::build(config);
  }

  models::Forward watched(const ModelConfig& config, const std::string& kind) {
    const models::Model gpt = as_gpt(config);
    const auto kinds = architecture::kinds_of(gpt.layers);
    const auto index = std::find(kinds.begin(), kinds.end(), kind) - kinds.begin();
    return [this, kind, forward = gpt.forwards.at(index)](std::span<const at::Tensor> parameters,
                                                          const models::Tensors& inputs,
                                                          const models::MicrobatchContext& pass) {
      if (kind == "head") add(pass);
      return forward(parameters, inputs, pass);
    };
  }

  std::mutex mutex_;
  std::vector<HeadPass> passes_;
};

// A run that would be long, starts synchronously and evaluates all the time.
Config tiny(const std::vector<std::string>& more = {}) {
  device::initialize();
  std::vector<std::string> settings = {
      "model.layers=1",          "model.width=16",         "model.heads=2",      "model.vocab=32",
      "model.context=8",         "pipeline.microbatch=1",  "pipeline.stages=1",  "devices=[cpu:0]",
      "pipeline.microbatches=2", "pipeline.schedule=2bw",  "train.updates=1000", "train.eval_every=1",
      "optimizer.warmup=0",      "pipeline.sync_updates=9"};
  settings.insert(settings.end(), more.begin(), more.end());
  return load_config("", settings);
}

const std::vector<std::string> kTwoStages = {"pipeline.stages=2", "pipeline.split=[3,4]",
                                             "devices=[cpu:0,cpu:0]"};

TEST(TrialRun, MakesItsUpdatesAndNothingElse) {
  HeadPasses& passes = HeadPasses::of_watched_gpt();
  for (const auto& stages : {std::vector<std::string>{}, kTwoStages}) {
    for (const ScheduleKind schedule : {ScheduleKind::TwoBW, ScheduleKind::Flush}) {
      Config config = tiny(stages);
      config.model.family = "watched_gpt";
      config.pipeline.schedule = schedule;
      passes.take();
      try_run(config);
      std::vector<HeadPass> expected;
      for (int update = 0; update < trial_updates(config); ++update) {
        for (int microbatch = 0; microbatch < 2; ++microbatch)
          expected.push_back({.training = true, .update = update, .microbatch = microbatch});
      }
      EXPECT_TRUE(passes.take() == expected) << name(schedule);
    }
  }
}

TEST(TrialRun, IsTheRunButForItsLengthItsStartAndItsEvaluations) {
  const Config config = tiny(kTwoStages);
  Config brief = trial_config(config);
  EXPECT_EQ(brief.train.updates, trial_updates(config));
  EXPECT_EQ(brief.train.eval_every, 0);
  EXPECT_EQ(brief.pipeline.sync_updates, 0);
  brief.train.updates = config.train.updates;
  brief.train.eval_every = config.train.eval_every;
  brief.pipeline.sync_updates = config.pipeline.sync_updates;
  EXPECT_EQ(to_yaml(brief), to_yaml(config));
}

TEST(TrialRun, IsAsLongWhateverTheLengthOfTheRun) {
  EXPECT_EQ(trial_updates(tiny({"train.updates=1"})), trial_updates(tiny({"train.updates=5000"})));
  EXPECT_EQ(trial_updates(tiny({"pipeline.sync_updates=0"})), trial_updates(tiny()));
}

// Every update of a trial, 10 s after the one before.
std::map<std::int64_t, double> even_ends(const Config& config) {
  std::map<std::int64_t, double> ends;
  for (int update = 0; update < trial_updates(config); ++update) ends[update] = 3 + 10 * update;
  return ends;
}

// The updates whose ends the rate depends on.
std::vector<std::int64_t> timed_updates(const Config& config) {
  const auto even = even_ends(config);
  std::vector<std::int64_t> timed;
  for (const auto& [update, end] : even) {
    auto ends = even;
    ends[update] += 1;
    if (trial_rate(config, ends) != trial_rate(config, even)) timed.push_back(update);
  }
  return timed;
}

TEST(TrialRun, HasTheRateOfTheSteadyState) {
  for (const ScheduleKind schedule : all_kinds()) {
    Config config = tiny({"pipeline.stages=2", "devices=[cpu:0,cpu:0]"});
    config.pipeline.schedule = schedule;
    EXPECT_DOUBLE_EQ(trial_rate(config, even_ends(config)), 2 * 8 / 10.0);  // two sequences an update
    const auto steady = schedule::steady_state(runtime::spec_of(trial_config(config)), trial_updates(config));
    ASSERT_TRUE(steady);
    EXPECT_EQ(timed_updates(config), (std::vector<std::int64_t>{steady->first, steady->last}));
  }
}

// There the first updates capture graphs.
TEST(TrialRun, BeginsToTimeLaterOnAGpu) {
  const Config config = tiny({"devices=[cuda:0]"});
  const auto steady = schedule::steady_state(runtime::spec_of(trial_config(config)), trial_updates(config));
  ASSERT_TRUE(steady);
  EXPECT_EQ(timed_updates(config), (std::vector<std::int64_t>{steady->first + 1, steady->last}));
  EXPECT_GT(trial_updates(config), trial_updates(tiny()));
}

TEST(TrialRun, CountsTheTokensOfAllReplicas) {
  const Config config = tiny({"pipeline.replicas=3", "devices=[cpu:0,cpu:0,cpu:0]"});
  EXPECT_DOUBLE_EQ(trial_rate(config, even_ends(config)), 3 * 2 * 8 / 10.0);
}

// Its seconds are those it cost, so they hold the ones it timed.
TEST(TrialRun, TakesLongerThanWhatItTimes) {
  const Config config = tiny();
  const auto timed = timed_updates(config);
  const Trial trial = try_run(config);
  const double tokens = static_cast<double>(timed.back() - timed.front()) * 2 * 8;
  EXPECT_GE(trial.seconds, tokens / trial.tokens_per_s);
}

TEST(TrialRun, LeavesTheRunDirectoryAlone) {
  const std::filesystem::path directory =
      std::filesystem::path(testing::TempDir()) / ("twobw_trial_" + std::to_string(getpid()));
  std::filesystem::create_directory(directory);
  std::ofstream(directory / "summary.json") << "{}";
  Config config = tiny();
  config.run_dir = directory;
  try_run(config);
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    files.push_back(entry.path().filename());
  EXPECT_EQ(files, std::vector<std::string>{"summary.json"});
  EXPECT_FALSE(std::filesystem::exists(directory.string() + ".1"));  // nor is it moved
  std::filesystem::remove_all(directory);
}

TEST(TrialRun, OfWhatCannotRunIsRefused) {
  Config config = tiny();
  config.pipeline.stages = 100;
  EXPECT_THROW(try_run(config), InputError);
}

}  // namespace
}  // namespace twobw::measure
