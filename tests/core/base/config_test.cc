#include "core/base/config.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "config_testing.h"
#include "core/base/config_schema.h"
#include "tests/core/base/config_doc.h"

namespace twobw {
namespace {

using Ints = std::vector<int>;
using Reals = std::vector<double>;

TEST(Config, DefaultsNeedNoFile) {
  EXPECT_EQ(to_yaml(load_config("", {})), to_yaml(Config{}));
  EXPECT_EQ(to_yaml(load("")), to_yaml(Config{}));
  EXPECT_EQ(to_yaml(load("# nothing\nmodel:\n")), to_yaml(Config{}));
}

TEST(Config, SaysWhichKeysAreSet) {
  const std::string file = TWOBW_SOURCE_DIR "/configs/sst2.yaml";
  EXPECT_TRUE(is_set("data.tokenizer", file, {}));
  EXPECT_FALSE(is_set("data.mask_probability", file, {"data.train=x"}));
  EXPECT_TRUE(is_set("data.tokenizer", "", {"data.train=x", "data.tokenizer=bytes"}));
  EXPECT_FALSE(is_set("data.tokenizer", "", {"data.train=x"}));
}

TEST(Config, ReadsTheFile) {
  const Config config = load(R"(
model: {layers: 4, width: 64, heads: 2, tied: false, dropout: 0.25}
data: {train: my corpus.txt}
pipeline:
  schedule: stash
  stages: 3
  split: [1, 2, 3]
  recompute: [2]
optimizer: {lr: 3e-4, betas: [0.5, .75]}
train: {seed: 18446744073709551615}
devices: [cpu:0, "cpu:1,3", cpu:4-7]
run_dir: runs/mine
)");
  EXPECT_EQ(config.model.layers, 4);
  EXPECT_FALSE(config.model.tied);
  EXPECT_EQ(config.model.dropout, 0.25);
  EXPECT_EQ(config.data.train, (Corpora{{.path = "my corpus.txt"}}));
  EXPECT_EQ(config.pipeline.schedule, ScheduleKind::Stash);
  EXPECT_EQ(config.pipeline.split, (Ints{1, 2, 3}));
  EXPECT_EQ(config.pipeline.recompute, (Ints{2}));
  EXPECT_EQ(config.optimizer.lr, 3e-4);
  EXPECT_EQ(config.optimizer.betas, (Reals{0.5, 0.75}));
  EXPECT_EQ(config.train.seed, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(config.devices, (std::vector<std::string>{"cpu:0", "cpu:1,3", "cpu:4-7"}));
  EXPECT_EQ(config.run_dir, "runs/mine");
  EXPECT_EQ(config.model.vocab, Config{}.model.vocab);
}

TEST(Config, LaterOverridesWin) {
  const Config config =
      load("pipeline: {stages: 3}\n", {"pipeline.stages=4", "pipeline.stages=5", "pipeline.split=[1,1,2,3,1]",
                                       "run_dir=a=b", "model={width: 96, heads: 3}", "train.seed=010"});
  EXPECT_EQ(config.pipeline.stages, 5);
  EXPECT_EQ(config.pipeline.split, (Ints{1, 1, 2, 3, 1}));
  EXPECT_EQ(config.run_dir, "a=b");
  EXPECT_EQ(config.model.width, 96);
  EXPECT_EQ(config.train.seed, 10u);  // decimal, not octal
}

TEST(Config, AnOverrideCuresABadValue) {
  EXPECT_EQ(load("pipeline: {stages: 0}\n", {"pipeline.stages=4"}).pipeline.stages, 4);
}

TEST(Config, NamesForLists) {
  const Config config =
      load("pipeline: {recompute: all, stages: 2, split: auto}\ndevices: auto\n", {"pipeline.stages=3"});
  EXPECT_EQ(config.pipeline.recompute, (Ints{0, 1, 2}));
  EXPECT_TRUE(config.pipeline.split.empty());
  EXPECT_TRUE(config.devices.empty());
  EXPECT_TRUE(load("pipeline: {recompute: none}\n").pipeline.recompute.empty());
}

TEST(Config, YamlRoundTripIsExact) {
  Config config;
  config.model.dropout = 0.1 + 0.2;  // 0.30000000000000004
  config.model.head = ModelHead::Regression;
  config.optimizer.lr = 1.0 / 3;
  config.optimizer.eps = std::numeric_limits<double>::denorm_min();
  config.pipeline.split = {3, 5};
  config.pipeline.recompute = {1, 0};
  config.train.seed = std::numeric_limits<std::uint64_t>::max();
  config.devices = {"cpu:0,2", "cpu:1"};
  config.data.train = {{.path = "null"}};
  config.data.validation = {{.path = "- a: \"b\" # c\\\t\n\xC3\xA9", .weight = 1.0 / 3},
                            {.path = "{", .weight = 2}};
  config.run_dir = "~";
  const Config back = load(to_yaml(config));
  EXPECT_EQ(to_yaml(back), to_yaml(config));
  EXPECT_EQ(back.model.dropout, config.model.dropout);
  EXPECT_EQ(back.model.head, ModelHead::Regression);
  EXPECT_EQ(back.optimizer.lr, config.optimizer.lr);
  EXPECT_EQ(back.optimizer.eps, config.optimizer.eps);
  EXPECT_EQ(back.data.validation, config.data.validation);
}

TEST(Config, CorporaAreAPathOrAListWithWeights) {
  const Config config = load("data:\n  train:\n    - {path: a b, weight: 0.7}\n    - {path: c}\n",
                             {"data.validation=[{weight: 3e-1, path: d}]"});
  EXPECT_EQ(config.data.train, (Corpora{{.path = "a b", .weight = 0.7}, {.path = "c"}}));
  EXPECT_EQ(config.data.validation, (Corpora{{.path = "d", .weight = 0.3}}));
  EXPECT_EQ(describe(config.data.train), "41.2% of a b, 58.8% of c");
  EXPECT_EQ(describe(config.data.validation), "d");
  const std::string yaml = to_yaml(config);
  EXPECT_NE(yaml.find("train: [{path: \"a b\", weight: 0.7}, {path: c, weight: 1}]"), std::string::npos)
      << yaml;
  EXPECT_EQ(to_yaml(load(yaml)), yaml);
  EXPECT_TRUE(is_synthetic(Config().data.train));
  EXPECT_FALSE(is_synthetic({{.path = "synthetic"}, {.path = "a"}}));
}

// But for the mark alone, which older files lack.
TEST(Config, ATextThatIsCutIsRefused) {
  const std::string text = to_yaml(Config{}), mark = "# end of the configuration\n";
  ASSERT_TRUE(text.ends_with(mark));
  const std::size_t keys = text.size() - mark.size(), first_line = text.find('\n') + 1;
  for (std::size_t size = first_line; size < keys; ++size)
    ASSERT_THROW(config_from_text(text.substr(0, size), "x"), InputError) << size;
  EXPECT_EQ(to_yaml(config_from_text(text.substr(0, keys), "x")), text);
  EXPECT_EQ(to_yaml(config_from_text(text.substr(0, text.size() - 1), "x")), text);
}

TEST(ConfigSchema, EveryKeyIsDescribed) {
  for (const Key& key : schema()) {
    EXPECT_TRUE(key.meaning.ends_with(".")) << key.path;
    EXPECT_TRUE(section_of(key.path).empty() || is_section(section_of(key.path))) << key.path;
    EXPECT_EQ(find_key(key.path), &key) << "named twice";
  }
}

#ifdef TWOBW_SOURCE_DIR
std::string source_text(const std::string& path) {
  std::ifstream file(std::string(TWOBW_SOURCE_DIR "/") + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// TWOBW_UPDATE_DOCS=1 in the environment writes the page instead.
TEST(ConfigDoc, PageIsUpToDate) {
  if (std::getenv("TWOBW_UPDATE_DOCS"))
    std::ofstream(TWOBW_SOURCE_DIR "/docs/reference/configuration.md") << render_config_doc();
  EXPECT_EQ(source_text("docs/reference/configuration.md"), render_config_doc())
      << "run again with TWOBW_UPDATE_DOCS=1";
}

TEST(ConfigFiles, LoadAndValidate) {
  EXPECT_EQ(load(source_text("configs/default.yaml")).model.layers, 4);
  EXPECT_EQ(load(source_text("configs/gpt-10m.yaml")).model.layers, 6);
  EXPECT_EQ(load(source_text("configs/verify.yaml")).model.layers, 2);
}
#endif

}  // namespace
}  // namespace twobw
