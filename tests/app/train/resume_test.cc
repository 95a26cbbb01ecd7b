// Training resumed from the files of an interrupted run.
#include "app/train/resume.h"

#include <gtest/gtest.h>

#include "app/train/run_directory.h"
#include "app/train/trainer.h"
#include "core/base/error.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/store.h"
#include "engine/device/device.h"
#include "planning/architecture/families.h"
#include "planning/host/cores.h"
#include "tests/app/train/saved_config.h"
#include "tests/engine/checkpoint/testing.h"
#include "tests/support/refusal.h"

namespace twobw::train {
namespace {

namespace fs = std::filesystem;
using testing_files::flip_bit;
using testing_files::read_bytes;
using testing_files::TemporaryFolder;
using testing_files::write_bytes;

Config resumed(Config config) {
  config.resume = config.run_dir;
  return config;
}

void expect_same_run(const std::string& a, const std::string& b) {
  EXPECT_EQ(lines_without_times(a), lines_without_times(b));
  EXPECT_EQ(read_bytes(a + "/model/model.safetensors"), read_bytes(b + "/model/model.safetensors"));
}

// As if the run had been killed: removes checkpoints after `updates`.
void lose_after(const std::string& run_dir, std::int64_t updates) {
  for (const checkpoint::Entry& entry : checkpoint::list(checkpoint::store_of(run_dir)))
    if (entry.update > updates) fs::remove_all(entry.folder);
}

std::vector<std::int64_t> saved_updates(const std::string& run_dir) {
  std::vector<std::int64_t> updates;
  for (const checkpoint::Entry& entry : checkpoint::list(checkpoint::store_of(run_dir)))
    updates.push_back(entry.update);
  return updates;
}

class ResumeRun : public testing::TestWithParam<const char*> {
 protected:
  ResumeRun() { device::initialize(); }
};

TEST_P(ResumeRun, EndsLikeTheRunThatWasNotStopped) {
  const TemporaryFolder folder;
  const Config config = saved_config(folder.path("whole"), GetParam());
  train(config, {.brief = true});
  // One that comes while another waits to be written takes its place: not all need be there.
  const std::vector<std::int64_t> cuts = saved_updates(config.run_dir);
  for (const std::int64_t cut : cuts) {
    if (cut == config.train.updates) continue;
    const std::string part = folder.path("part" + std::to_string(cut));
    fs::copy(config.run_dir, part, fs::copy_options::recursive);
    lose_after(part, cut);
    for (const char* const file : {"/metrics.jsonl", "/log.txt"})  // the power failed in a line
      write_bytes(part + file, read_bytes(part + file) + "{\"torn" + std::string(3, '\0'));
    Config rest = config;
    rest.run_dir = part;
    const Outcome outcome = train(resumed(rest), {.brief = true});
    EXPECT_EQ(outcome.summary["updates"], 9);
    EXPECT_EQ(outcome.curve.size(), 3u);
    expect_same_run(config.run_dir, part);
    EXPECT_EQ(read_bytes(part + "/log.txt").find("torn"), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, ResumeRun, testing::Values("2bw", "flush", "gpipe", "stash"));

// Their order depends on lengths, and their width on the microbatch.
TEST(ResumeRunTest, TextsInBucketsGoOnWhereTheyWere) {
  device::initialize();
  const TemporaryFolder folder;
  std::string rows;
  for (int i = 0; i < 50; ++i) rows += fmt::format("{:a<{}}\t{}\n", i, 2 + i * 7 % 18, i % 2);
  write_bytes(folder.path("rows.tsv"), rows);
  Config config = saved_config(folder.path("whole"));
  config.model.head = ModelHead::Classification;
  config.model.vocab = 256;
  config.model.context = 20;
  config.data.train = config.data.validation = {{.path = folder.path("rows.tsv")}};
  config.data.text = "1";
  config.data.label = "2";
  config.data.bucket = 4;
  config.pipeline.microbatch = 2;
  train(config, {.brief = true});
  Config rest = config;
  rest.run_dir = folder.path("part");
  fs::copy(config.run_dir, rest.run_dir, fs::copy_options::recursive);
  lose_after(rest.run_dir, 4);
  train(resumed(rest), {.brief = true});
  expect_same_run(config.run_dir, rest.run_dir);
}

TEST(ResumeRunTest, WhatItStartedFromMayBeGone) {
  device::initialize();
  const TemporaryFolder folder;
  Config config = saved_config(folder.path("before"));
  config.checkpoint.every_updates = 0;
  train(config, {.brief = true});
  const std::string theirs = folder.path("theirs");
  fs::rename(config.run_dir + "/model", theirs);

  config = saved_config(folder.path("whole"));
  config.model.from = theirs;
  train(config, {.brief = true});
  EXPECT_NE(read_bytes(config.run_dir + "/log.txt").find("starting from the weights in " + theirs),
            std::string::npos);
  Config rest = config;
  rest.run_dir = folder.path("part");
  fs::copy(config.run_dir, rest.run_dir, fs::copy_options::recursive);
  lose_after(rest.run_dir, 4);
  fs::remove_all(theirs);
  train(resumed(rest), {.brief = true});
  expect_same_run(config.run_dir, rest.run_dir);
  for (const char* const file : {"/from/config.json", "/model/config.json"})
    EXPECT_EQ(read_bytes(rest.run_dir + file), read_bytes(config.run_dir + file)) << file;
  EXPECT_NE(read_bytes(rest.run_dir + "/config.yaml").find("from: " + theirs), std::string::npos);
}

TEST(ResumeRunTest, ADamagedCheckpointIsNamedAndTheOneBeforeItTaken) {
  device::initialize();
  const TemporaryFolder folder;
  Config config = saved_config(folder.path("run"));
  config.checkpoint.every_updates = 100;  // so there is one of the end alone
  config.train.updates = 4;
  train(config, {.brief = true});
  config.train.updates = 9;
  train(resumed(config), {.brief = true});
  const std::string whole = lines_without_times(config.run_dir);
  ASSERT_EQ(saved_updates(config.run_dir), (std::vector<std::int64_t>{4, 9}));
  const std::string state = config.run_dir + "/checkpoints/update-00000009/state.safetensors";
  flip_bit(state, read_bytes(state).size() / 2);
  write_bytes(config.run_dir + "/checkpoints/latest", "update-99999999\n");
  train(resumed(config), {.brief = true});
  EXPECT_EQ(lines_without_times(config.run_dir), whole);
  const std::string log = read_bytes(config.run_dir + "/log.txt");
  EXPECT_NE(log.find("warning: '" + state + "' is damaged"), std::string::npos) << log;
}

// The first tensor of the state that the stage alone has.
checkpoint::StoredTensor tensor_of_stage(const Config& config, int stage, const std::string& state) {
  const architecture::Model model = architecture::model_of(config.model);
  const auto layer = static_cast<std::size_t>(config.pipeline.first_layer(stage));
  return checkpoint::TensorFile(state).tensors().at("moment1/" + model[layer].parameters.front().name);
}

TEST(ResumeRunTest, AStageReadsNoTensorsButItsOwn) {
  device::initialize();
  const TemporaryFolder folder;
  Config config = saved_config(folder.path("run"));
  config.train.updates = 2;
  train(config, {.brief = true});
  const std::string checkpoint = config.run_dir + "/checkpoints/update-00000002";
  const std::string state = checkpoint + "/state.safetensors";
  const auto whole = read_stages(checkpoint, config, {0, 1});
  const auto first = read_stages(checkpoint, config, {0}), second = read_stages(checkpoint, config, {1});
  for (const auto& [buffer, tensors] : whole->buffers) {
    for (const auto& [name, tensor] : tensors) {
      const bool here = first->buffers[buffer].contains(name), there = second->buffers[buffer].contains(name);
      EXPECT_TRUE(here || there) << buffer << " of " << name;
      EXPECT_TRUE(!here || tensor.equal(first->buffers[buffer].at(name)));
      EXPECT_TRUE(!there || tensor.equal(second->buffers[buffer].at(name)));
    }
    EXPECT_LT(first->buffers[buffer].size(), tensors.size()) << buffer;
  }
  EXPECT_EQ(second->update, 2);

  flip_bit(state, tensor_of_stage(config, 1, state).begin);
  EXPECT_NO_THROW(read_stages(checkpoint, config, {0}));
  EXPECT_THROW(read_stages(checkpoint, config, {1}), InputError);
  EXPECT_THROW(read_stages(checkpoint, config, {0, 1}), InputError);
}

std::string refusal(const Config& config) {
  return error_of([&] { find_resume_point(config); });
}

TEST(ResumeRunTest, WhatContradictsIsRefusedByName) {
  device::initialize();
  const TemporaryFolder folder;
  const Config config = resumed(saved_config(folder.path("run")));
  Config fresh = config;
  fresh.resume = "auto";  // without a checkpoint it starts from scratch
  fresh.train.updates = 5;
  train(fresh, {.brief = true});

  EXPECT_EQ(refusal(config), "");
  Config changed = config;
  changed.model.width = 32;
  EXPECT_NE(refusal(changed).find("model.width is 32, but the checkpoint '"), std::string::npos);
  changed = config;
  changed.train.seed = 7;
  EXPECT_NE(refusal(changed).find("train.seed is 7"), std::string::npos);
  changed = config;
  changed.optimizer.lr = 1e-4;
  changed.pipeline.stages = 1;
  changed.pipeline.split = {7};
  EXPECT_EQ(refusal(changed), "");
  changed.train.updates = 5;
  EXPECT_NE(refusal(changed).find("train.updates is 5"), std::string::npos);
  changed = config;
  changed.resume = changed.run_dir = folder.path("nowhere");
  EXPECT_NE(refusal(changed).find("is not the folder of a run"), std::string::npos);
}

TEST(ResumeRunTest, ARunGoesOnBeyondItsEndAndWithAnotherSchedule) {
  device::initialize();
  const TemporaryFolder folder;
  Config config = saved_config(folder.path("run"));
  train(config, {.brief = true});
  config.train.updates = 12;
  EXPECT_EQ(train(resumed(config), {.brief = true}).summary["updates"], 12);
  config.train.updates = 14;
  config.pipeline.schedule = ScheduleKind::Flush;
  EXPECT_EQ(train(resumed(config), {.brief = true}).summary["updates"], 14);
  config.train.updates = 16;
  config.pipeline.schedule = ScheduleKind::TwoBW;
  config.pipeline.stages = 1;
  config.pipeline.split = {7};
  config.devices = {
      device::core_names().front()};  // no team of threads, see tests/engine/runtime/resume_test.cc
  EXPECT_EQ(train(resumed(config), {.brief = true}).summary["updates"], 16);
}

TEST(MetricsFileTest, KeepsTheLinesUpToTheCheckpoint) {
  const TemporaryFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  const std::string kept =
      "{\"update\":1,\"loss\":2.5,\"time\":1.5}\n{\"update\":2,\"loss\":null,\"time\":3.0}\n";
  write_bytes(path, kept +
                        "{\"update\":2,\"validation_loss\":2.0}\n{\"update\":3,\"loss\":1.0}\n"
                        "{\"checkpoint\":4}\n{\"upd");
  const ResumedMetrics past = copy_metrics(path, path, 2, /*evaluates_again=*/true);
  EXPECT_EQ(read_bytes(path), kept);
  ASSERT_EQ(past.updates.size(), 2u);
  EXPECT_EQ(past.updates[0].loss, 2.5);
  EXPECT_NE(past.updates[1].loss, past.updates[1].loss);  // not a number
  EXPECT_EQ(past.seconds, 3.0);
  EXPECT_TRUE(past.evaluations.empty());
  EXPECT_TRUE(copy_metrics(folder.path("none"), path, 2, false).updates.empty());
}

}  // namespace
}  // namespace twobw::train
