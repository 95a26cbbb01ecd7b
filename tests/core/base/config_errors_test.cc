// Every kind of bad input, and the sentence that refuses it.
#include <gtest/gtest.h>

#include <utility>

#include "config_testing.h"

namespace twobw {
namespace {

struct Refusal {
  std::string text;  // of the file
  std::string sentence;
};

void expect_refused(const std::vector<Refusal>& rows) {
  for (const auto& [text, sentence] : rows) EXPECT_EQ(refused(text), sentence);
}

// "KEY is VALUE at x.yaml:1; it must MUST", for {section: {key: value}}.
void expect_values(const std::vector<std::pair<std::string, std::string>>& rows) {
  for (const auto& [setting, must] : rows) {
    const std::size_t dot = setting.find('.'), equals = setting.find('=');
    const std::string section = setting.substr(0, dot), key = setting.substr(dot + 1, equals - dot - 1);
    const std::string value = setting.substr(equals + 1);
    const bool word = value.find_first_of("0123456789[{'") != 0 && !value.starts_with('-');
    EXPECT_EQ(
        refused(section + ": {" + key + ": " + value + "}\n"),
        section + "." + key + " is " + (word ? "'" + value + "'" : value) + " at x.yaml:1; it must " + must);
  }
}

const std::string kTopLevel =
    "the top level has model, data, pipeline, optimizer, train, checkpoint, network, devices, run_dir, plan, "
    "resume";

TEST(ConfigErrors, UnknownKeys) {
  expect_refused({
      {"model:\n  layers: 2\npipeline:\n  stage: 2\n",
       "unknown key 'pipeline.stage' at x.yaml:4; did you mean 'pipeline.stages'?"},
      {"pipelin: {stages: 2}\n", "unknown key 'pipelin' at x.yaml:1; did you mean 'pipeline'?"},
      {"stages: 2\n", "unknown key 'stages' at x.yaml:1; did you mean 'pipeline.stages'?"},
      {"zebra: 1\n", "unknown key 'zebra' at x.yaml:1; " + kTopLevel},
      {"? [a, b]\n: 1\n", "unknown key '[a, b]' at x.yaml:1; " + kTopLevel},
  });
  EXPECT_EQ(override_refused("train.lr=1"),
            "unknown key 'train.lr' in override 'train.lr=1'; did you mean 'optimizer.lr'?");
  EXPECT_EQ(
      override_refused("checkpoint.colour=red"),
      "unknown key 'checkpoint.colour' in override 'checkpoint.colour=red'; checkpoint has every_updates, "
      "every_minutes, keep");
  EXPECT_EQ(override_refused("pipeline.slack=3"),
            "unknown key 'pipeline.slack' in override 'pipeline.slack=3'; use pipeline.step_slack");
}

// A row for every kind of key; config_limits_test.cc has the limits of all whole numbers.
TEST(ConfigErrors, WrongTypes) {
  const std::string whole = "be a whole number of at least 1 and at most 65536";
  expect_values({{"pipeline.stages=two", whole},
                 {"pipeline.stages=[2]", whole},
                 {"pipeline.stages={a: 1}", whole},
                 {"model.tied=maybe", "be true or false"},
                 {"optimizer.lr=.nan", "be a number of at least 0"},
                 {"pipeline.schedule=dualpipe", "be one of sequential, gpipe, flush, 2bw, stash"},
                 {"optimizer.decay=step", "be one of cosine, linear, constant"},
                 {"pipeline.split=even", "be auto or a list of the layers of each stage"},
                 {"pipeline.split=[]", "be auto or a list of the layers of each stage"},
                 {"pipeline.recompute=some", "be none, all or a list of stages"},
                 {"model.family=''", "be text, not empty"}});
  EXPECT_EQ(refused("run_dir:\n"), "run_dir is empty at x.yaml:1; it must be text, not empty");
  for (const char* value : {"2.5", "99999999999"}) {
    const std::string given = std::string("pipeline.stages=") + value;
    EXPECT_EQ(override_refused(given),
              std::string("pipeline.stages is ") + value + " in override '" + given + "'; it must " + whole);
  }
  EXPECT_EQ(override_refused("pipeline.stages="),
            "pipeline.stages is empty in override 'pipeline.stages='; it must " + whole);
}

TEST(ConfigErrors, NumbersOutOfRange) {
  expect_values({{"model.dropout=1", "be a number of at least 0 and below 1"},
                 {"optimizer.clip=-0.5", "be a number of at least 0"},
                 {"optimizer.min_lr=2", "be a number from 0 to 1"},
                 {"train.seed=-1", "be a whole number of at least 0 and at most 18446744073709551615"},
                 {"train.loss_scale=1000", "be a power of two from 1 to 16777216"},
                 {"data.mask_probability=0", "be a number above 0 and up to 1"},
                 {"pipeline.timeout=0", "be a number above 0 and at most 1000000"},
                 {"network.join_timeout=1e10", "be a number above 0 and at most 1000000"},
                 {"network.heartbeat_timeout=1e10", "be a number above 0 and at most 1000000"}});
}

TEST(ConfigErrors, Corpora) {
  const std::string allowed = "be a path, or a list such as [{path: a, weight: 0.7}, {path: b, weight: 0.3}]";
  expect_values(
      {{"data.train=[]", allowed},
       {"data.train=[a, b]", allowed},
       {"data.validation=''", allowed},
       {"data.train=[{path: a, wieght: 2}]",
        "have a path and a weight in every entry, and 'wieght' is neither"},
       {"data.train=[{path: a, weight: lots}]", "have numbers as weights, and 'lots' is not a number"},
       {"data.train=[{path: a}, {weight: 2}]", "have a path in every entry"},
       {"data.train=[{path: a}, {path: b, weight: 0}]", "have weights above 0, and that of 'b' is 0"},
       {"data.train=[{path: a}, {path: b, weight: 1e-7}]",
        "have weights of at least a millionth of their sum, and that of 'b' is 1e-07"}});
}

TEST(ConfigErrors, ValuesThatDoNotFitOthers) {
  expect_values({{"model.rope_factor=8", "be 1 without model.rope_scaling"},
                 {"data.classes=[a, b, a]", "name each class once"},
                 {"pipeline.split=[8, 0]", "give every stage at least 1 layer, not a stage with no layer"},
                 {"pipeline.recompute=[0, 2]", "name stages from 0 to 1, as pipeline.stages is 2"},
                 {"pipeline.recompute=[1, 1]", "name each stage once"},
                 {"optimizer.betas=[0.9, 1]", "be a list of two numbers, each at least 0 and below 1"},
                 {"optimizer.betas=[0.9]", "be a list of two numbers, each at least 0 and below 1"}});
  expect_refused({
      {"model: {width: 64, heads: 5}\n",
       "model.heads is 5 at x.yaml:1; it must divide model.width, which is 64"},
      {"model:\n  heads: 6\n  width: 24\n  kv_heads: 4\n",
       "model.kv_heads is 4 at x.yaml:4; it must divide model.heads, which is 6"},
      {"model: {rope_scaling: dynamic}\n",
       "model.rope_original_context is 0; it must be at least 1 if model.rope_scaling is dynamic"},
      {"model: {rope_scaling: llama3, rope_original_context: 64, rope_low_freq_factor: 4}\n",
       "model.rope_high_freq_factor is 4; it must be above model.rope_low_freq_factor, which is 4"},
      {"model: {head: regression, num_labels: 3}\n",
       "model.num_labels is 3 at x.yaml:1; it must be 2 if model.head is regression"},
      {"model: {head: regression}\ndata: {classes: [a, b]}\n",
       "data.classes is [a, b] at x.yaml:2; it must be auto if model.head is regression"},
      {"model: {head: classification, num_labels: 3}\ndata: {classes: [a, b]}\n",
       "data.classes is [a, b] at x.yaml:2; it must name 3 classes, as model.num_labels is 3"},
      {"pipeline: {split: [4, 4], stages: 3}\n",
       "pipeline.split is [4, 4] at x.yaml:1; it must have one entry per stage, and pipeline.stages is 3"},
  });
}

TEST(ConfigErrors, Devices) {
  const std::string start = " at x.yaml:1; it must ", per_stage = "have one entry per stage, and ";
  expect_refused({
      {"devices: cpu:0\n",
       "devices is 'cpu:0'" + start + "be auto or a list of devices, one per stage of every replica"},
      {"devices: [cpu:0]\n", "devices is [cpu:0]" + start + per_stage + "pipeline.stages is 2"},
      {"devices: [cuda:0/4]\n", "devices is [cuda:0/4]" + start + per_stage + "pipeline.stages is 2"},
      {"devices: [cpu:0, cpu:1]\npipeline: {replicas: 3}\n",
       "devices is [cpu:0, cpu:1]" + start +
           "have one entry per stage of every replica, and 3 replicas of 2 stages make 6"},
      {"devices: [cuda:0, cpu:0]\n",
       "devices is [cuda:0, cpu:0]" + start + "name CPU cores or GPUs, not both"},
  });
  for (const std::string bad : {"gpu:0", "cpu:", "cpu:3-1", "cpu:0,", "cpu:a"}) {
    EXPECT_EQ(refused("devices: [cpu:0, \"" + bad + "\"]\n"),
              "devices is [cpu:0, " + bad + "]" + start +
                  "have entries like cpu:0, cpu:0-3, \"cpu:0,2\", cuda:0 or cuda:0/4; '" + bad +
                  "' is not a device");
  }
  EXPECT_NO_THROW(load("devices: [cuda:0/4]\nplan: auto\n"));  // to plan for
}

TEST(ConfigErrors, FilesAndOverridesOfAnotherForm) {
  expect_refused({
      {"pipeline:\n  stages: 2\n  extra: 0\n  stages: 2\n",
       "pipeline.stages is given twice, at x.yaml:2 and at x.yaml:4; it must be given once"},
      {"model: {layers: 2}\ntrain:\nmodel: {width: 8}\n",
       "model is given twice, at x.yaml:1 and at x.yaml:3; it must be given once"},
      {"model: {layers: 2}\npipeline: fast\n",
       "pipeline is 'fast' at x.yaml:2; it must be a section of keys, such as pipeline.schedule"},
      {"just words\n", "x.yaml holds 'just words'; it must hold sections of keys, such as model.layers"},
      {"- a\n- b\n", "x.yaml holds [a, b]; it must hold sections of keys, such as model.layers"},
      {"model: {layers: 2}\n---\nmodel: {layers: 3}\n",
       "x.yaml holds several YAML documents; it must hold one"},
  });
  // yaml-cpp's own words follow the colon.
  EXPECT_TRUE(refused("model:\n  layers: 2\n width: 3\n").starts_with("x.yaml:3 is not valid YAML: "));
  EXPECT_TRUE(override_refused("pipeline.split=[1, 2")
                  .starts_with("override 'pipeline.split=[1, 2' is not valid YAML: "));
  EXPECT_EQ(override_refused("model=gpt"),
            "model is 'gpt' in override 'model=gpt'; it must be a section of keys, such as model.family");
  for (const std::string bad : {"pipeline.stages", "=4", ""}) {
    EXPECT_EQ(override_refused(bad),
              "override '" + bad + "' is not a setting; it must be key=value, such as pipeline.stages=4");
  }
  EXPECT_EQ(refusal_of([] { load_config("no/such.yaml", {}); }),
            "configuration file 'no/such.yaml' cannot be read: No such file or directory");
  EXPECT_EQ(refusal_of([] { load_config(".", {}); }),
            "configuration file '.' cannot be read: it is a folder");
}

TEST(ConfigErrors, ValidateNamesNoPlace) {
  Config config;
  config.optimizer.name = "adam";
  EXPECT_EQ(refusal_of([&] { validate(config); }),
            "optimizer.name is 'adam'; it must be one of adamw, sgd, lion, lamb, muon");
}

}  // namespace
}  // namespace twobw
