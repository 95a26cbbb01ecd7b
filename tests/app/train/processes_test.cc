// A run in several processes writes the same files as in one.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "app/train/config_digest.h"
#include "app/train/decision.h"
#include "app/train/state_transfer.h"
#include "app/train/trainer.h"
#include "app/train/verify.h"
#include "core/base/error.h"
#include "core/base/text_file.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/store.h"
#include "engine/device/device.h"
#include "planning/architecture/families.h"
#include "tests/app/train/saved_config.h"
#include "tests/engine/checkpoint/testing.h"
#include "tests/engine/runtime/ranks.h"
#include "tests/support/refusal.h"

namespace twobw::train {
namespace {

using runtime::Ranks;
using testing_files::read_bytes;
using testing_files::TemporaryFolder;
using transport::wire_kinds;

Config shared_config(const std::string& run_dir, int replicas = 1) {
  Config config = saved_config(run_dir);
  config.pipeline.replicas = replicas;
  config.train.updates = 7;
  return config;
}

Outcome train_in(int processes, const Config& config, const std::string& trace = "") {
  device::initialize();
  const Ranks ranks(processes, wire_kinds().front());
  Outcome outcome;
  ranks.run([&](int rank) {
    Outcome own = train(config, {.trace = trace, .brief = true, .processes = ranks[rank]});
    if (rank == 0) outcome = std::move(own);
  });
  return outcome;
}

void expect_same_files(const std::string& one, const std::string& other) {
  EXPECT_EQ(lines_without_times(one), lines_without_times(other));
  EXPECT_EQ(read_bytes(one + "/model/model.safetensors"), read_bytes(other + "/model/model.safetensors"));
  std::map<std::int64_t, std::string> ours;
  for (const auto& saved : checkpoint::list(checkpoint::store_of(one))) ours[saved.update] = saved.folder;
  int common = 0;
  for (const auto& theirs : checkpoint::list(checkpoint::store_of(other))) {
    const auto found = ours.find(theirs.update);
    if (found == ours.end()) continue;  // some are left out where the disk is slow
    ++common;
    EXPECT_TRUE(checkpoint::find_problems(found->second).empty());
    for (const auto& entry : std::filesystem::recursive_directory_iterator(theirs.folder)) {
      if (entry.path().extension() != ".safetensors") continue;
      const auto file = std::filesystem::relative(entry.path(), theirs.folder).string();
      EXPECT_EQ(read_bytes(found->second + "/" + file), read_bytes(entry.path().string())) << file;
    }
  }
  EXPECT_GE(common, 1);
}

class SharedRun : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path(name); }
  TemporaryFolder folder_;
};

class SharedRunOf : public SharedRun, public testing::WithParamInterface<int> {};

TEST_P(SharedRunOf, WritesWhatOneProcessWrites) {
  const int replicas = GetParam();
  device::initialize();
  train(shared_config(path("alone"), replicas), {.brief = true});
  const Outcome outcome = train_in(2 * replicas, shared_config(path("shared"), replicas), path("trace.json"));
  expect_same_files(path("shared"), path("alone"));
  EXPECT_EQ(outcome.summary["stages"].size(), 2u * replicas);
  EXPECT_FALSE(outcome.interrupted);
  const auto trace = nlohmann::json::parse(read_bytes(path("trace.json")));
  std::set<int> stages;
  for (const auto& event : trace) stages.insert(event["tid"].get<int>());
  EXPECT_EQ(stages.size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Replicas, SharedRunOf, testing::Values(1, 2));

// Checkpoints, metrics and model are those of replicas that keep all of the optimizer's state each.
TEST_F(SharedRun, WritesTheSameWhereReplicasShareTheState) {
  device::initialize();
  train(shared_config(path("whole"), 2), {.brief = true});
  Config config = shared_config(path("sharded"), 2);
  config.pipeline.shard_state = true;
  train(config, {.brief = true});
  expect_same_files(path("sharded"), path("whole"));
  config.run_dir = path("spread");
  train_in(2, config);
  expect_same_files(path("spread"), path("whole"));
  // Each resumes from the checkpoint of the other.
  const auto saved = checkpoint::list(checkpoint::store_of(config.run_dir));
  ASSERT_GE(saved.size(), 2u);
  for (std::size_t i = 1; i < saved.size(); ++i) std::filesystem::remove_all(saved[i].folder);
  config.resume = config.run_dir;
  config.pipeline.shard_state = false;
  train(config, {.brief = true});
  expect_same_files(path("spread"), path("whole"));
}

// Only rank 1 reads the damaged tensor.
TEST_F(SharedRun, DamageThatOneFindsTakesAllToTheCheckpointBefore) {
  Config config = shared_config(path("shared"));
  config.checkpoint.every_updates = 100;  // so there is one of the end alone
  config.train.updates = 3;
  train_in(2, config);
  config.resume = config.run_dir;
  config.train.updates = 5;
  train_in(2, config);
  const std::string state = path("shared/checkpoints/update-00000005/state.safetensors");
  const architecture::Model model = architecture::model_of(config.model);
  const std::string name = "moment1/" + model[3].parameters.front().name;  // the first layer of stage 1
  testing_files::flip_bit(state, checkpoint::TensorFile(state).tensors().at(name).begin);
  config.train.updates = 7;
  const Outcome outcome = train_in(2, config);
  EXPECT_EQ(outcome.summary["updates"], 7);
  const std::string log = read_bytes(path("shared/log.txt"));
  EXPECT_NE(
      log.find(fmt::format("warning: process 1: '{}' is damaged: the checksum of '{}' does not fit; the "
                           "checkpoint before it is taken",
                           state, name)),
      std::string::npos)
      << log;
  EXPECT_NE(log.find("resumed after update 3 from"), std::string::npos) << log;
}

// As where run_dir is not on a file system that the hosts share.
TEST_F(SharedRun, ACheckpointThatIsAnotherOneElsewhereIsRefused) {
  Config config = shared_config(path("shared"));
  config.train.updates = 2;
  train_in(2, config);
  const std::string folder = path("shared/checkpoints/update-00000002");
  const Ranks ranks(2, wire_kinds().front());
  transport::on_all_ranks(2, [&](int rank) {
    if (rank == 0) {
      for (const std::string& there : {folder, path("gone")}) {
        const DecidedRun run{.config = config,
                             .resume = CheckpointId{.folder = there, .manifest = "a checksum"}};
        ranks[0]->mail().send(1, encode_run(run));
      }
      return;
    }
    for (const char* const why : {"is another one for this process than for process 0", "is not there"}) {
      const std::string sentence = error_of([&] { await_decision(*ranks[1], /*plans=*/false); });
      EXPECT_NE(sentence.find(why), std::string::npos) << sentence;
    }
  });
}

// Snapshots arrive unchanged and in order; a full queue blocks.
TEST(State, SnapshotsAndWeightsComeToRankZeroInOrder) {
  constexpr int kSnapshots = 9;
  const Ranks ranks(2, wire_kinds().front());
  const models::Model model = models::build(shared_config("").model);
  PipelineShape shape;
  shape.stages = 2;
  shape.split = {3, 4};
  std::vector<runtime::Snapshot> got;
  at::Tensor weights;
  std::vector<telemetry::Event> events;
  ranks.run([&](int rank) {
    if (rank == 0) {
      StateReceiver receiver(ranks[0], model, shape,
                             [&](runtime::Snapshot snapshot) { got.push_back(std::move(snapshot)); });
      receiver.finish();
      weights = receiver.weights(1);
      EXPECT_FALSE(receiver.weights(0).defined());
      events = receiver.events();
      return;
    }
    StateSender sender(ranks[1], 1);
    const weights::Layout layout(model.layers, 3, 7);
    for (int update = 0; update < kSnapshots; ++update) {
      runtime::Snapshot snapshot{.update = update, .stage = 1, .layout = layout};
      snapshot.buffers = {{"weights", at::full({layout.size()}, update, at::kFloat)},
                          {"compute", at::full({3}, 2 * update, at::kBFloat16)},
                          {"empty", at::empty({0}, at::kFloat)}};
      snapshot.counters = {.applied = update, .last_scale = 0.5f};
      sender.add(std::move(snapshot));
    }
    StateMessage last{.kind = StateMessage::Kind::Weights, .stage = 1};
    last.buffers.emplace_back("weights", at::arange(5, at::kFloat));
    sender.finish({last, events_message({{.stage = 1, .begin = 2.5}, {.stage = 1, .end = 3.5}})});
  });
  ASSERT_EQ(got.size(), kSnapshots);
  for (int update = 0; update < kSnapshots; ++update) {
    EXPECT_EQ(got[update].update, update);
    EXPECT_EQ(got[update].layout.first_layer(), 3);
    EXPECT_EQ(got[update].counters.applied, update);
    EXPECT_EQ(got[update].counters.last_scale, 0.5f);
    ASSERT_EQ(got[update].buffers.size(), 3u);
    EXPECT_EQ(got[update].buffers[0].first, "weights");
    EXPECT_TRUE(got[update].buffers[0].second.eq(update).all().item<bool>());
    EXPECT_TRUE(got[update].buffers[1].second.equal(at::full({3}, 2 * update, at::kBFloat16)));
    EXPECT_EQ(got[update].buffers[2].second.numel(), 0);
  }
  EXPECT_TRUE(weights.equal(at::arange(5, at::kFloat)));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].begin, 2.5);
  EXPECT_EQ(events[1].end, 3.5);
}

TEST(State, WhoGivesUpEndsTheWaitsOfTheOther) {
  const Ranks ranks(2, wire_kinds().front());
  const models::Model model = models::build(shared_config("").model);
  PipelineShape shape;
  transport::on_all_ranks(2, [&](int rank) {
    if (rank == 1) {
      const StateSender sender(ranks[1], 1);
      return;
    }
    StateReceiver receiver(ranks[0], model, shape, [](const runtime::Snapshot&) {});
    EXPECT_THROW(receiver.finish(), transport::Cancelled);
  });
}

TEST(DecidedRun, IsTheSameInAllProcesses) {
  Config config = shared_config("unused");
  config.pipeline.sync_updates = 2;
  config.checkpoint.every_updates = 2;
  config.resume = "runs/a";
  const architecture::Model layers = architecture::model_of(config.model);
  DecidedRun given =
      decide(config, {3, 4}, {{.cores = {{0, 1}}}, {.gpu = GpuSlice{.gpu = 1, .slice = 2, .slices = 4}}},
             ResumePoint{.folder = "runs/a/checkpoints/update-00000004",
                         .manifest = {.update = 4},
                         .checksum = "a checksum"},
             layers);
  given.record_events = true;
  EXPECT_EQ(given.spec.first_batch, 4);
  EXPECT_TRUE(given.spec.begins_drained);  // the manifest names no tensors
  EXPECT_TRUE(given.spec.save_last);
  EXPECT_EQ(given.config.resume, "none");
  const DecidedRun got = decode_run(encode_run(given));
  EXPECT_EQ(to_yaml(got.config), to_yaml(given.config));
  EXPECT_EQ(got.spec.shape, given.spec.shape);
  EXPECT_EQ(got.spec.shape.split, (std::vector<int>{3, 4}));
  EXPECT_EQ(got.spec.sync_updates, 2);
  EXPECT_EQ(got.spec.save_every, 2);
  EXPECT_TRUE(got.spec.save_last);
  EXPECT_EQ(got.spec.first_batch, 4);
  EXPECT_TRUE(got.spec.begins_drained);
  ASSERT_EQ(got.devices.size(), 2u);
  EXPECT_EQ(device::describe(got.devices[0]), "cpu:0,1");
  EXPECT_EQ(device::describe(got.devices[1]), "cuda:1/4.2");
  ASSERT_TRUE(got.resume.has_value());
  EXPECT_EQ(got.resume->folder, given.resume->folder);
  EXPECT_EQ(got.resume->manifest, "a checksum");
  EXPECT_TRUE(got.record_events);
  EXPECT_THROW(decode_run(encode_run(given).substr(0, 40)), InputError);
}

TEST(Facts, AreOfTheConfigurationAndOfTheFilesItNames) {
  const TemporaryFolder folder;
  const std::string file = folder.path("text"), missing = folder.path("none");
  write_text(file, "0123456789");
  Config config;
  config.data.train = {{.path = file}, {.path = "synthetic"}, {.path = file, .weight = 2}};
  config.data.validation = {{.path = missing}};
  const control::Facts facts = facts_of("train", config);
  const auto value = [&](const std::string& key) -> std::string {
    std::string found;
    for (const auto& [name, text] : facts) {
      if (name != key) continue;
      EXPECT_EQ(found, "") << key << " is there twice";
      found = text;
    }
    return found;
  };
  EXPECT_EQ(value("the command"), "train");
  EXPECT_EQ(value("train.updates"), "1000");
  EXPECT_EQ(value("network.heartbeat_timeout"), "30");
  EXPECT_EQ(value("the file '" + file + "' of data.train").find("10 bytes, checksum "), 0u);
  EXPECT_EQ(value("the file '" + missing + "' of data.validation"), "cannot be read");
  EXPECT_EQ(control::compare_facts({facts, facts}), "");
  write_text(file, "0123456798");
  EXPECT_NE(control::compare_facts({facts, facts_of("train", config)}).find(file), std::string::npos);
  // Large files are sampled, with the first and the last block.
  std::filesystem::resize_file(file, 65 << 20);
  const control::Facts large = facts_of("train", config);
  EXPECT_EQ(control::compare_facts({large, facts_of("train", config)}), "");
  std::fstream(file, std::ios::in | std::ios::out).seekp(-1, std::ios::end).put('x');
  EXPECT_NE(control::compare_facts({large, facts_of("train", config)}).find(file), std::string::npos);
  // For a folder, digests of its files.
  config.data.tokenizer = std::filesystem::path(file).parent_path();
  const control::Facts of_folder = facts_of("train", config);
  write_text(file, "0");
  EXPECT_NE(control::compare_facts({of_folder, facts_of("train", config)}).find("tokenizer"),
            std::string::npos);
}

}  // namespace
}  // namespace twobw::train
