// Models of runs, evaluated and gone on with: the same bits over any number of stages and beside any other
// prompts.
#include "app/inference/generation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "app/inference/evaluation.h"
#include "app/train/trainer.h"
#include "core/base/error.h"
#include "engine/device/device.h"
#include "small_models.h"
#include "tests/text/corpus/testing.h"

namespace twobw::inference {
namespace {
namespace generating {

using corpus::testing::Folder;
using corpus::testing::has;
using made_up::made_up_tokens;

// A run of each of two families, made once.
class Generating : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    device::initialize();
    folder_ = std::make_unique<Folder>();
    for (const auto& [name, model] : made_up::small_models()) {
      if (name != "gpt" && name != "qwen3") continue;
      Config config;
      config.model = model;
      config.pipeline.stages = 1;
      config.pipeline.microbatch = 2;
      config.pipeline.microbatches = 2;
      config.optimizer.lr = 1e-2;
      config.optimizer.warmup = 1;
      config.train.updates = 3;
      config.train.eval_every = 0;
      config.train.eval_microbatches = 3;
      config.run_dir = folder_->file(name);
      train::train(config);
    }
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static ModelSource source(const std::string& name, const std::vector<std::string>& settings = {}) {
    return find_model(folder_->file(name), settings);
  }
  static std::vector<Prompt> prompts() {
    return {{.ids = made_up_tokens(3, 1)}, {.ids = made_up_tokens(11, 2)}, {.ids = made_up_tokens(1, 3)}};
  }
  static std::vector<std::vector<std::int64_t>> ids_of(const std::vector<Generated>& generated) {
    std::vector<std::vector<std::int64_t>> ids;
    for (const Generated& of : generated) ids.push_back(of.ids);
    return ids;
  }

  static std::unique_ptr<Folder> folder_;
};
std::unique_ptr<Folder> Generating::folder_;

TEST_F(Generating, TheSameOverAnyNumberOfStages) {
  // More tokens than the context has room for.
  for (const double temperature : {0.0, 0.9}) {
    const GenerationOptions options{.sampling = {.temperature = temperature, .top_k = 20, .seed = 4},
                                    .tokens = made_up::kContext};
    for (const char* const name : {"gpt", "qwen3"}) {
      const auto expected = ids_of(generate(source(name), nullptr, prompts(), options));
      for (const auto& ids : expected) EXPECT_EQ(ids.size(), made_up::kContext);
      for (const char* const stages : {"pipeline.stages=2", "pipeline.stages=3"})
        EXPECT_EQ(ids_of(generate(source(name, {stages}), nullptr, prompts(), options)), expected) << stages;
    }
  }
}

TEST_F(Generating, TheSameInBatchesOfAnySize) {
  for (const int batch : {1, 2, 8}) {
    const GenerationOptions options{.sampling = {.seed = 9}, .tokens = 8, .batch = batch};
    static const auto expected = ids_of(generate(source("gpt"), nullptr, prompts(), options));
    EXPECT_EQ(ids_of(generate(source("gpt"), nullptr, prompts(), options)), expected);
  }
}

TEST_F(Generating, EqualPromptsHaveRandomNumbersOfTheirOwn) {
  const std::vector<Prompt> twice(2, prompts()[0]);
  const auto texts = generate(source("gpt"), nullptr, twice, {.sampling = {.temperature = 2}, .tokens = 12});
  EXPECT_NE(texts[0].ids, texts[1].ids);
}

TEST_F(Generating, EndsAtTheTokenThatEndsATextAndAtStops) {
  const ModelSource from = source("gpt");
  const GenerationOptions plain{.sampling = {.temperature = 0}, .tokens = 6};
  const Generated whole = generate(from, nullptr, {prompts()[0]}, plain)[0];
  EXPECT_EQ(whole.finish, Finish::Length);
  GenerationOptions ends = plain;
  ends.ends = {whole.ids[2]};
  const Generated ended = generate(from, nullptr, {prompts()[0]}, ends)[0];
  EXPECT_EQ(ended.finish, Finish::End);
  EXPECT_EQ(ended.ids.back(), whole.ids[2]);
  EXPECT_LE(ended.ids.size(), 3);

  const auto bytes = load_tokenizer(from);
  GenerationOptions stops = plain;
  stops.stops = {std::string(1, static_cast<char>(whole.ids[1]))};
  std::string streamed;
  const Generated stopped =
      generate(from, bytes.get(), {prompts()[0]}, stops,
               {.on_text = [&](std::size_t, const std::string& piece) { streamed += piece; }})[0];
  EXPECT_EQ(stopped.finish, Finish::Stop);
  EXPECT_LE(stopped.ids.size(), 2);
  EXPECT_EQ(stopped.text, streamed);
  EXPECT_EQ(stopped.text.find(stops.stops[0]), std::string::npos);
}

TEST(Prompts, OfAFile) {
  const Folder folder;
  const auto plain = read_prompts(folder.write("a.txt", "one\r\ntwo words\n"));
  ASSERT_EQ(plain.size(), 2);
  EXPECT_EQ(plain[0].text, "one");
  EXPECT_EQ(plain[1].text, "two words");
  const auto json = read_prompts(folder.write("a.jsonl", "{\"prompt\": \"a\\nb\"}\n{\"ids\": [3, 4]}\n"));
  ASSERT_EQ(json.size(), 2);
  EXPECT_EQ(json[0].text, "a\nb");
  EXPECT_EQ(json[1].ids, (std::vector<std::int64_t>{3, 4}));
  EXPECT_TRUE(has(error_of([&] { read_prompts(folder.write("b.txt", "a\n\nb\n")); }), "b.txt:2' is empty"));
  EXPECT_TRUE(has(error_of([&] { read_prompts(folder.write("c.txt", "")); }), "has no prompts"));
  EXPECT_TRUE(
      has(error_of([&] { read_prompts(folder.write("d.jsonl", "{}\n")); }), "neither a text 'prompt'"));
  EXPECT_TRUE(has(error_of([&] { read_prompts(folder.write("e.jsonl", "{\"ids\": [1.5]}\n")); }), "1.5"));
  EXPECT_TRUE(has(error_of([&] { read_prompts(folder.write("f.jsonl", "{\n")); }), "f.jsonl:1' is not JSON"));
  EXPECT_EQ(parse_ids("1, 2,3").ids, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_TRUE(has(error_of([] { parse_ids("1 x"); }), "--ids is '1 x'"));
  EXPECT_TRUE(has(error_of([] { parse_ids(" "); }), "at least one"));
}

}  // namespace generating
}  // namespace
}  // namespace twobw::inference
