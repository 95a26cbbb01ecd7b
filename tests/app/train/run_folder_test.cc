// The folder of a run: its place, and the parts of it that a resumed run depends on.
#include <gtest/gtest.h>

#include <filesystem>

#include "app/train/resume.h"
#include "app/train/run_directory.h"
#include "app/train/trainer.h"
#include "core/base/error.h"
#include "core/base/text_file.h"
#include "engine/checkpoint/store.h"
#include "engine/device/device.h"
#include "tests/app/train/saved_config.h"
#include "tests/engine/checkpoint/testing.h"
#include "tests/support/refusal.h"

namespace twobw::train {
namespace {

namespace fs = std::filesystem;
using testing_files::read_bytes;
using testing_files::TemporaryFolder;
using testing_files::write_bytes;

Config short_run(const std::string& run_dir) {
  device::initialize();
  Config config = saved_config(run_dir);
  config.train.updates = 4;
  return config;
}

std::string refusal_of_file(const std::string& run, const std::vector<std::string>& overrides) {
  return error_of([&] { config_of_run(run, overrides); });
}

TEST(RunFolderTest, TheCheckpointDecidesOnTheConfiguration) {
  const TemporaryFolder folder;
  Config config = short_run(folder.path("run"));
  train(config, {.brief = true});
  const std::string run = config.run_dir, file = run + "/config.yaml";
  EXPECT_EQ(to_yaml(config_of_run(run, {})), read_bytes(file));

  config.optimizer.warmup = 77;
  write_text(file, to_yaml(config));
  const std::string newest = checkpoint::list(checkpoint::store_of(run)).back().folder;
  EXPECT_EQ(refusal_of_file(run, {}),
            fmt::format("optimizer.warmup is 77 in '{}', but 2 in the checkpoint '{}'; set it on the command "
                        "line: optimizer.warmup=77 or optimizer.warmup=2",
                        file, newest));
  EXPECT_EQ(config_of_run(run, {"optimizer.warmup=5"}).optimizer.warmup, 5);
  config.model.width = 32;
  write_text(file, to_yaml(config));
  EXPECT_NE(refusal_of_file(run, {"optimizer.warmup=5"}).find("model.width is 32 in"), std::string::npos);
  fs::remove(file);
  EXPECT_EQ(config_of_run(run, {}).optimizer.warmup, 2);
  EXPECT_EQ(config_of_run(run, {"run_dir=other"}).run_dir, "other");
}

TEST(RunFolderTest, ALinkStaysAndItsTargetIsMoved) {
  const TemporaryFolder folder;
  fs::create_directory(folder.path("disk"));
  const std::string link = folder.path("run"), target = folder.path("disk/run");
  fs::create_directory_symlink("disk/run", link);  // which is missing at first
  for (const char* const moved_to : {"", "disk/run.1", "disk/run.2"}) {
    FolderLock lock;
    // However it is spelled.
    EXPECT_EQ(make_run_directory(link + (*moved_to ? "/" : ""), lock),
              *moved_to ? folder.path(moved_to) : "");
    ASSERT_TRUE(fs::is_symlink(link));
    ASSERT_FALSE(fs::exists(target + "/metrics.jsonl"));
    write_bytes(link + "/metrics.jsonl", "{}\n");
    EXPECT_TRUE(fs::exists(target + "/metrics.jsonl"));
  }
}

TEST(RunFolderTest, DataThatHaveChangedAreRefusedUnlessThatIsAllowed) {
  const TemporaryFolder folder;
  const std::string data = folder.path("data.txt"), text(500, 'a');
  write_bytes(data, text);
  Config config = short_run(folder.path("run"));
  config.model.vocab = 256;
  config.data.train = {{.path = data}};
  train(config, {.brief = true});
  config.resume = config.run_dir;
  config.train.updates = 6;
  const auto refuses = [&] {
    try {
      find_resume_point(config);
    } catch (const InputError& error) {
      const std::string sentence = error.what();
      EXPECT_TRUE(sentence.starts_with(
          fmt::format("the file '{}' of data.train has changed: it had 500 bytes", data)));
      EXPECT_NE(sentence.find("data.changed=allow"), std::string::npos);
      return true;
    }
    return false;
  };
  fs::last_write_time(data, fs::last_write_time(data) + std::chrono::hours(1));
  EXPECT_FALSE(refuses());
  write_bytes(data, text + "a");
  EXPECT_TRUE(refuses());
  write_bytes(data, text.substr(1) + "b");
  EXPECT_TRUE(refuses());
  config.data.changed = "allow";
  train(config, {.brief = true});
  EXPECT_NE(read_bytes(config.run_dir + "/log.txt").find("warning: the file '" + data), std::string::npos);
  EXPECT_EQ(config_of_run(config.run_dir, {}).data.changed, "refuse");  // once
  config.data.changed = "refuse";
  config.train.updates = 8;
  EXPECT_FALSE(refuses());
}

TEST(RunFolderTest, WhatIsTakenInsteadIsSaidWhereThereIsOne) {
  const TemporaryFolder folder;
  Config config = short_run(folder.path("run"));
  config.checkpoint.every_updates = 100;  // so there is one of each end
  train(config, {.brief = true});
  config.resume = config.run_dir;
  config.train.updates = 6;
  train(config, {.brief = true});
  config.train.updates = 8;
  const std::vector<checkpoint::Entry> entries = checkpoint::list(checkpoint::store_of(config.run_dir));
  ASSERT_EQ(entries.size(), 2u);
  write_bytes(entries.back().folder + "/checkpoint.json", "{}");
  const std::string problem = fmt::format(
      "'{}/checkpoint.json' is damaged: it is not the JSON of a checkpoint", entries.back().folder);
  EXPECT_EQ(warnings_of(find_resume_point(config).value()),
            (std::vector{"warning: " + problem + "; the checkpoint before it is taken"}));
  fs::remove_all(entries.front().folder);
  const std::string sentence = error_of([&] { find_resume_point(config); });
  EXPECT_TRUE(sentence.ends_with("no checkpoint that can be loaded; " + problem)) << sentence;
}

}  // namespace
}  // namespace twobw::train
