// Checkpoints on disk: complete or not there, and every flipped bit is noticed.
#include "engine/checkpoint/store.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.h"
#include "engine/checkpoint/writer.h"
#include "tests/engine/checkpoint/testing.h"

namespace twobw::checkpoint {
namespace {

using testing_files::flip_bit;
using testing_files::read_bytes;
using testing_files::TemporaryFolder;
using testing_files::write_bytes;

Contents sample_contents(std::int64_t update, std::optional<double> loss = std::nullopt) {
  Contents contents;
  contents.manifest.update = update;
  contents.manifest.applied = update;
  contents.manifest.last_scale = static_cast<double>(0.1f);
  contents.manifest.validation_loss = loss;
  contents.manifest.config = "train: {seed: 1}\n";
  contents.manifest.layout = {{"split", {2, 3}}};
  contents.model = {{"a", at::arange(6, at::kFloat).view({2, 3})}, {"b", at::ones({4})}};
  contents.state = {{"moment1/a", at::full({2, 3}, 0.5)}, {"predicted/a", at::zeros({2, 3})}};
  contents.model_files = {{"config.json", "{}"}};
  return contents;
}

std::vector<std::int64_t> updates_in(const std::string& store) {
  std::vector<std::int64_t> updates;
  for (const Entry& entry : list(store)) updates.push_back(entry.update);
  return updates;
}

TEST(StoreTest, ReadsBackWhatItWrote) {
  const TemporaryFolder folder;
  const Contents contents = sample_contents(40, 1.25);
  EXPECT_GT(write(folder.path("s"), contents), 0u);
  ASSERT_EQ(updates_in(folder.path("s")), std::vector<std::int64_t>{40});
  EXPECT_EQ(read_bytes(folder.path("s/latest")), "update-00000040\n");
  const Loaded loaded = load(list(folder.path("s")).front().folder);
  EXPECT_EQ(loaded.manifest.update, 40);
  EXPECT_EQ(static_cast<float>(loaded.manifest.last_scale), 0.1f);
  EXPECT_EQ(loaded.manifest.validation_loss, 1.25);
  EXPECT_EQ(loaded.manifest.config, contents.manifest.config);
  EXPECT_TRUE(loaded.model.at("a").equal(contents.model[0].tensor));
  EXPECT_TRUE(loaded.state.at("moment1/a").equal(contents.state[0].tensor));
}

TEST(StoreTest, HasTheLossScalesOfTheNextBatchesWhereThereAreAny) {
  const TemporaryFolder folder;
  Contents contents = sample_contents(40);
  write(folder.path("without"), contents);
  EXPECT_FALSE(load(list(folder.path("without")).front().folder).manifest.scaling);
  contents.manifest.scaling = LossScaling{.current = 4096, .next = 2048, .clean = 7, .judged = 40};
  write(folder.path("with"), contents);
  EXPECT_EQ(load(list(folder.path("with")).front().folder).manifest.scaling, contents.manifest.scaling);
}

TEST(StoreTest, EveryFlippedBitOfAFileIsNoticed) {
  const TemporaryFolder folder;
  write(folder.path("s"), sample_contents(2));
  const std::string checkpoint = folder.path("s/update-00000002");
  for (const std::string name : {"/model/model.safetensors", "/model/config.json", "/state.safetensors"}) {
    const std::size_t size = read_bytes(checkpoint + name).size();
    for (std::size_t at = 0; at < size; ++at) {
      flip_bit(checkpoint + name, at);
      ASSERT_FALSE(find_problems(checkpoint).empty()) << name << " byte " << at;
      ASSERT_THROW(load(checkpoint), InputError);
      flip_bit(checkpoint + name, at);
    }
  }
  EXPECT_TRUE(find_problems(checkpoint).empty());
}

TEST(StoreTest, NamesWhatIsWrong) {
  const TemporaryFolder folder;
  write(folder.path("s"), sample_contents(2));
  const std::string checkpoint = folder.path("s/update-00000002"), state = checkpoint + "/state.safetensors";
  flip_bit(state, read_bytes(state).size() - 1);
  EXPECT_EQ(
      find_problems(checkpoint),
      std::vector<std::string>{"'" + state + "' is damaged: the checksum of 'predicted/a' does not fit"});
  std::filesystem::remove(state);
  EXPECT_EQ(find_problems(checkpoint), std::vector<std::string>{"'" + state + "' is missing"});
  std::filesystem::remove(checkpoint + "/checkpoint.json");
  EXPECT_EQ(find_problems(checkpoint),
            std::vector<std::string>{"'" + checkpoint + "/checkpoint.json' is missing"});
}

TEST(StoreTest, WhatIsHalfWrittenIsNotListed) {
  const TemporaryFolder folder;
  write(folder.path("s"), sample_contents(2));
  std::filesystem::create_directories(folder.path("s/update-00000004.partial"));
  std::filesystem::create_directories(folder.path("s/update-x"));
  EXPECT_EQ(updates_in(folder.path("s")), std::vector<std::int64_t>{2});
  prune(folder.path("s"), 1);
  EXPECT_FALSE(std::filesystem::exists(folder.path("s/update-00000004.partial")));
  EXPECT_TRUE(list(folder.path("nowhere")).empty());
}

TEST(StoreTest, OneThatCannotBeReadIsNotEmpty) {
  const TemporaryFolder folder;
  write_bytes(folder.path("file"), "in the way");
  std::filesystem::create_symlink("/not/mounted", folder.path("link"));
  for (const std::string& store : {folder.path("file"), folder.path("link")})
    EXPECT_THROW(list(store), InputError) << store;
}

TEST(StoreTest, KeepsTheNewestAndTheBest) {
  const TemporaryFolder folder;
  const std::vector<double> losses = {3, 1, 2, 2.5, 2.25};
  for (std::size_t i = 0; i < losses.size(); ++i)
    write(folder.path("s"), sample_contents(static_cast<std::int64_t>(i), losses[i]));
  prune(folder.path("s"), 2);
  EXPECT_EQ(updates_in(folder.path("s")), (std::vector<std::int64_t>{1, 3, 4}));
}

TEST(StoreTest, ReplacesOneOfTheSameUpdate) {
  const TemporaryFolder folder;
  write(folder.path("s"), sample_contents(2, 1.0));
  write(folder.path("s"), sample_contents(2, 0.5));
  ASSERT_EQ(updates_in(folder.path("s")), std::vector<std::int64_t>{2});
  EXPECT_EQ(load(folder.path("s/update-00000002")).manifest.validation_loss, 0.5);
}

TEST(WriterTest, WritesInTheBackgroundAndSaysWhatItCouldNot) {
  const TemporaryFolder folder;
  write_bytes(folder.path("file"), "in the way");
  std::mutex mutex;
  std::vector<Written> told;
  const auto tell = [&](const Written& written) {
    std::lock_guard lock(mutex);
    told.push_back(written);
  };
  {
    Writer good(folder.path("s"), 2, tell);
    good.add(2, [] { return sample_contents(2); });
    good.finish();
    good.add(4, [] { return sample_contents(4); });
  }
  Writer bad(folder.path("file/s"), 2, tell);
  bad.add(6, [] { return sample_contents(6); });
  bad.finish();
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0].problem + told[1].problem, "");
  EXPECT_EQ(told[1].update, 4);
  EXPECT_NE(told[2].problem, "");
  EXPECT_EQ(updates_in(folder.path("s")), (std::vector<std::int64_t>{2, 4}));
}

}  // namespace
}  // namespace twobw::checkpoint
