// Every kind of bad input, and the sentence it is refused with.
#include <gtest/gtest.h>

#include "config_testing.h"

namespace twobw {
namespace {

TEST(ConfigErrors, UnknownKeys) {
  EXPECT_EQ(refused("model:\n  layers: 2\npipeline:\n  stage: 2\n"),
            "unknown key 'pipeline.stage' at x.yaml:4; did you mean 'pipeline.stages'?");
  EXPECT_EQ(refused("pipelin: {stages: 2}\n"), "unknown key 'pipelin' at x.yaml:1; did you mean 'pipeline'?");
  EXPECT_EQ(refused("stages: 2\n"), "unknown key 'stages' at x.yaml:1; did you mean 'pipeline.stages'?");
  EXPECT_EQ(override_refused("train.lr=1"),
            "unknown key 'train.lr' in override 'train.lr=1'; did you mean 'optimizer.lr'?");
  EXPECT_EQ(override_refused("data.colour=red"),
            "unknown key 'data.colour' in override 'data.colour=red'; data has train, validation, tokenizer, "
            "mask_probability, whole_words, text, pair, label, classes, bucket, changed");
  EXPECT_EQ(
      override_refused("pipeline.guard_updates=30"),
      "unknown key 'pipeline.guard_updates' in override 'pipeline.guard_updates=30'; remove it: a warning of "
      "pipeline.guard names the pipeline.sync_updates to resume with");
  EXPECT_EQ(refused("zebra: 1\n"),
            "unknown key 'zebra' at x.yaml:1; the top level has model, data, pipeline, optimizer, train, "
            "checkpoint, network, devices, run_dir, plan, resume");
  EXPECT_EQ(refused("? [a, b]\n: 1\n"),
            "unknown key '[a, b]' at x.yaml:1; the top level has model, data, pipeline, optimizer, train, "
            "checkpoint, network, devices, run_dir, plan, resume");
}

TEST(ConfigErrors, HeadsAndRotaryEmbedding) {
  EXPECT_EQ(refused("model:\n  heads: 6\n  width: 24\n  kv_heads: 4\n"),
            "model.kv_heads is 4 at x.yaml:4; it must divide model.heads, which is 6");
  EXPECT_EQ(refused("model: {rope_factor: 8}\n"),
            "model.rope_factor is 8 at x.yaml:1; it must be 1 where model.rope_scaling is none");
  EXPECT_EQ(refused("model: {rope_scaling: linear, rope_factor: 0.5}\n"),
            "model.rope_factor is 0.5 at x.yaml:1; it must be a number of at least 1");
  EXPECT_EQ(refused("model: {rope_scaling: yarn}\n"),
            "model.rope_scaling is 'yarn' at x.yaml:1; it must be one of none, linear, dynamic, llama3");
  EXPECT_EQ(refused("model: {rope_scaling: dynamic}\n"),
            "model.rope_original_context is 0; it must be at least 1 where model.rope_scaling is dynamic");
  EXPECT_EQ(refused("model: {rope_scaling: llama3, rope_original_context: 64, rope_low_freq_factor: 4}\n"),
            "model.rope_high_freq_factor is 4; it must be above model.rope_low_freq_factor, which is 4");
}

TEST(ConfigErrors, WhatAModelTells) {
  EXPECT_EQ(refused("model: {head: 64}\n"),
            "model.head is 64 at x.yaml:1; it must be one of auto, causal_lm, masked_lm, classification, "
            "regression");
  EXPECT_EQ(refused("model: {head: regression, num_labels: 3}\n"),
            "model.num_labels is 3 at x.yaml:1; it must be 2 where model.head is regression");
  EXPECT_EQ(
      refused("model: {head: classification, num_labels: 1}\n"),
      "model.num_labels is 1 at x.yaml:1; it must be a whole number of at least 2 and at most 10000000");
  EXPECT_NO_THROW(load("model: {head: classification, num_labels: 3}\n"));
}

TEST(ConfigErrors, WrongTypes) {
  EXPECT_EQ(
      refused("pipeline:\n  schedule: 2bw\n  stages: two\n"),
      "pipeline.stages is 'two' at x.yaml:3; it must be a whole number of at least 1 and at most 65536");
  EXPECT_EQ(override_refused("pipeline.stages=2.5"),
            "pipeline.stages is 2.5 in override 'pipeline.stages=2.5'; it must be a whole number of at least "
            "1 and at most 65536");
  EXPECT_EQ(override_refused("pipeline.stages="),
            "pipeline.stages is empty in override 'pipeline.stages='; it must be a whole number of at least "
            "1 and at most 65536");
  EXPECT_EQ(refused("pipeline: {stages: [2]}\n"),
            "pipeline.stages is [2] at x.yaml:1; it must be a whole number of at least 1 and at most 65536");
  EXPECT_EQ(
      refused("pipeline: {stages: {a: 1}}\n"),
      "pipeline.stages is {a: 1} at x.yaml:1; it must be a whole number of at least 1 and at most 65536");
  EXPECT_EQ(refused("model: {tied: maybe}\n"), "model.tied is 'maybe' at x.yaml:1; it must be true or false");
  EXPECT_EQ(refused("optimizer: {lr: .nan}\n"),
            "optimizer.lr is '.nan' at x.yaml:1; it must be a number of at least 0");
  EXPECT_EQ(refused("run_dir:\n"), "run_dir is empty at x.yaml:1; it must be text, not empty");
  EXPECT_EQ(refused("pipeline: {split: even}\n"),
            "pipeline.split is 'even' at x.yaml:1; it must be auto or a list of the layers of each stage");
  EXPECT_EQ(refused("pipeline: {split: []}\n"),
            "pipeline.split is [] at x.yaml:1; it must be auto or a list of the layers of each stage");
  EXPECT_EQ(refused("pipeline: {recompute: some}\n"),
            "pipeline.recompute is 'some' at x.yaml:1; it must be none, all or a list of stages");
  EXPECT_EQ(refused("devices: cpu:0\n"),
            "devices is 'cpu:0' at x.yaml:1; it must be auto or a list of devices, one per stage of every "
            "replica");
}

TEST(ConfigErrors, ValuesOutOfRange) {
  EXPECT_EQ(refused("pipeline:\n  stages: 0\n"),
            "pipeline.stages is 0 at x.yaml:2; it must be a whole number of at least 1 and at most 65536");
  EXPECT_EQ(refused("pipeline: {replicas: 0}\n"),
            "pipeline.replicas is 0 at x.yaml:1; it must be a whole number of at least 1 and at most 16384");
  EXPECT_EQ(override_refused("pipeline.stages=99999999999"),
            "pipeline.stages is 99999999999 in override 'pipeline.stages=99999999999'; it must be a whole "
            "number of at least 1 and at most 65536");
  EXPECT_EQ(refused("train: {seed: -1}\n"),
            "train.seed is -1 at x.yaml:1; it must be a whole number of at least 0 and at most "
            "18446744073709551615");
  EXPECT_EQ(refused("model: {dropout: 1}\n"),
            "model.dropout is 1 at x.yaml:1; it must be a number of at least 0 and below 1");
  EXPECT_EQ(refused("optimizer: {warmup: -1}\n"),
            "optimizer.warmup is -1 at x.yaml:1; it must be a whole number of at least 0 and at most "
            "1000000000000");
  EXPECT_EQ(refused("optimizer: {clip: -0.5}\n"),
            "optimizer.clip is -0.5 at x.yaml:1; it must be a number of at least 0");
  EXPECT_EQ(refused("optimizer: {min_lr: 2}\n"),
            "optimizer.min_lr is 2 at x.yaml:1; it must be a number from 0 to 1");
  EXPECT_EQ(refused("train: {loss_scale: 1000}\n"),
            "train.loss_scale is 1000 at x.yaml:1; it must be a power of two from 1 to 16777216");
  EXPECT_EQ(refused("pipeline: {timeout: 0}\n"),
            "pipeline.timeout is 0 at x.yaml:1; it must be a number above 0 and at most 1000000");
  for (const char* key : {"pipeline.timeout", "network.join_timeout", "network.heartbeat_timeout"}) {
    const std::string given = std::string(key) + "=1e10";
    EXPECT_EQ(override_refused(given), std::string(key) + " is 1e10 in override '" + given +
                                           "'; it must be a number above 0 and at most 1000000");
  }
  EXPECT_EQ(refused("model: {family: ''}\n"), "model.family is '' at x.yaml:1; it must be text, not empty");
}

TEST(ConfigErrors, Choices) {
  EXPECT_EQ(
      refused("pipeline: {schedule: 1f1b}\n"),
      "pipeline.schedule is '1f1b' at x.yaml:1; it must be one of sequential, gpipe, flush, 2bw, stash");
  EXPECT_EQ(refused("optimizer: {name: adam}\n"),
            "optimizer.name is 'adam' at x.yaml:1; it must be one of adamw, sgd, lion, lamb, muon");
  EXPECT_EQ(refused("optimizer: {decay: step}\n"),
            "optimizer.decay is 'step' at x.yaml:1; it must be one of cosine, linear, constant");
  EXPECT_EQ(refused("train: {precision: fp8}\n"),
            "train.precision is 'fp8' at x.yaml:1; it must be one of fp32, bf16, fp16");
  EXPECT_EQ(refused("checkpoint: {keep: 0}\n"),
            "checkpoint.keep is 0 at x.yaml:1; it must be a whole number of at least 1 and at most 1000000");
}

TEST(ConfigErrors, Corpora) {
  const std::string allowed =
      "it must be a path, or a list such as [{path: a, weight: 0.7}, {path: b, weight: 0.3}]";
  EXPECT_EQ(refused("data:\n  train: []\n"), "data.train is [] at x.yaml:2; " + allowed);
  EXPECT_EQ(refused("data: {train: [a, b]}\n"), "data.train is [a, b] at x.yaml:1; " + allowed);
  EXPECT_EQ(refused("data: {validation: ''}\n"), "data.validation is '' at x.yaml:1; " + allowed);
  EXPECT_EQ(refused("data: {validation: }\n"), "data.validation is empty at x.yaml:1; " + allowed);
  EXPECT_EQ(
      refused("data: {train: [{path: a, wieght: 2}]}\n"),
      "data.train is [{path: a, wieght: 2}] at x.yaml:1; it must have a path and a weight in every entry, "
      "and 'wieght' is neither");
  EXPECT_EQ(
      refused("data: {train: [{path: a, weight: lots}]}\n"),
      "data.train is [{path: a, weight: lots}] at x.yaml:1; it must have numbers as weights, and 'lots' is "
      "none");
  EXPECT_EQ(refused("data: {train: [{path: a}, {weight: 2}]}\n"),
            "data.train is [{path: a}, {weight: 2}] at x.yaml:1; it must have a path in every entry");
  EXPECT_EQ(
      refused("data: {train: [{path: a}, {path: b, weight: 0}]}\n"),
      "data.train is [{path: a}, {path: b, weight: 0}] at x.yaml:1; it must have weights above 0, and that "
      "of 'b' is 0");
  EXPECT_EQ(
      refused("data: {train: [{path: a}, {path: b, weight: 1e-7}]}\n"),
      "data.train is [{path: a}, {path: b, weight: 1e-7}] at x.yaml:1; it must have weights of at least a "
      "millionth of their sum, and that of 'b' is 1e-07");
}

TEST(ConfigErrors, DataOfHeads) {
  EXPECT_EQ(refused("data: {mask_probability: 0}\n"),
            "data.mask_probability is 0 at x.yaml:1; it must be a number above 0 and up to 1");
  EXPECT_EQ(refused("data: {classes: [a, b, a]}\n"),
            "data.classes is [a, b, a] at x.yaml:1; it must name each class once");
  EXPECT_EQ(refused("model: {head: regression}\ndata: {classes: [a, b]}\n"),
            "data.classes is [a, b] at x.yaml:2; it must be auto where model.head is regression");
  EXPECT_EQ(refused("model: {head: classification, num_labels: 3}\ndata: {classes: [a, b]}\n"),
            "data.classes is [a, b] at x.yaml:2; it must name as many classes as model.num_labels says, "
            "which is 3");
}

TEST(ConfigErrors, ValuesThatDoNotFitOthers) {
  EXPECT_EQ(refused("model: {width: 64, heads: 5}\n"),
            "model.heads is 5 at x.yaml:1; it must divide model.width, which is 64");
  EXPECT_EQ(refused("pipeline: {split: [8, 0]}\n"),
            "pipeline.split is [8, 0] at x.yaml:1; it must give every stage at least 1 layer, not a stage "
            "with no layer");
  EXPECT_EQ(
      refused("pipeline: {split: [4, 4]}\n", {"pipeline.stages=3"}),
      "pipeline.split is [4, 4] at x.yaml:1; it must have one entry per stage, and pipeline.stages is 3");
  EXPECT_EQ(
      refused("pipeline: {recompute: [0, 2]}\n"),
      "pipeline.recompute is [0, 2] at x.yaml:1; it must name stages from 0 to 1, as pipeline.stages is 2");
  EXPECT_EQ(refused("pipeline: {recompute: [1, 1]}\n"),
            "pipeline.recompute is [1, 1] at x.yaml:1; it must name each stage once");
  EXPECT_EQ(refused("optimizer: {betas: [0.9, 1]}\n"),
            "optimizer.betas is [0.9, 1] at x.yaml:1; it must be a list of two numbers, each at least 0 and "
            "below 1");
  EXPECT_EQ(
      refused("optimizer: {betas: [0.9]}\n"),
      "optimizer.betas is [0.9] at x.yaml:1; it must be a list of two numbers, each at least 0 and below 1");
  EXPECT_EQ(refused("devices: [cpu:0]\n"),
            "devices is [cpu:0] at x.yaml:1; it must have one entry per stage, and pipeline.stages is 2");
  EXPECT_EQ(refused("devices: [cpu:0, cpu:1]\n", {"pipeline.replicas=3"}),
            "devices is [cpu:0, cpu:1] at x.yaml:1; it must have one entry per stage of every replica, and 3 "
            "replicas of 2 stages make 6");
  EXPECT_NO_THROW(load("devices: [cuda:0/4]\nplan: auto\n"));  // to plan for
  EXPECT_EQ(refused("devices: [cuda:0/4]\n"),
            "devices is [cuda:0/4] at x.yaml:1; it must have one entry per stage, and pipeline.stages is 2");
  EXPECT_EQ(refused("devices: [cuda:0, cpu:0]\n"),
            "devices is [cuda:0, cpu:0] at x.yaml:1; it must name CPU cores or GPUs, not both");
  for (const std::string bad : {"gpu:0", "cpu:", "cpu:3-1", "cpu:0,", "cpu:a"}) {
    EXPECT_EQ(refused("devices: [cpu:0, \"" + bad + "\"]\n"),
              "devices is [cpu:0, " + bad +
                  "] at x.yaml:1; it must have entries like cpu:0, cpu:0-3, \"cpu:0,2\", cuda:0 or cuda:0/4, "
                  "and '" +
                  bad + "' is none");
  }
}

TEST(ConfigErrors, DuplicateKeys) {
  EXPECT_EQ(refused("pipeline:\n  stages: 2\n  extra: 0\n  stages: 2\n"),
            "pipeline.stages is given twice, at x.yaml:2 and at x.yaml:4; it must be given once");
  EXPECT_EQ(refused("model: {layers: 2}\ntrain:\nmodel: {width: 8}\n"),
            "model is given twice, at x.yaml:1 and at x.yaml:3; it must be given once");
}

TEST(ConfigErrors, AScalarForASection) {
  EXPECT_EQ(refused("model: {layers: 2}\npipeline: fast\n"),
            "pipeline is 'fast' at x.yaml:2; it must be a section of keys, such as pipeline.schedule");
  EXPECT_EQ(override_refused("model=gpt"),
            "model is 'gpt' in override 'model=gpt'; it must be a section of keys, such as model.family");
  EXPECT_EQ(refused("just words\n"),
            "x.yaml holds 'just words'; it must hold sections of keys, such as model.layers");
  EXPECT_EQ(refused("- a\n- b\n"),
            "x.yaml holds [a, b]; it must hold sections of keys, such as model.layers");
}

TEST(ConfigErrors, FilesThatCannotBeRead) {
  EXPECT_EQ(refusal([] { load_config("no/such.yaml", {}); }),
            "configuration file 'no/such.yaml' cannot be read: No such file or directory");
  EXPECT_EQ(refusal([] { load_config(".", {}); }), "configuration file '.' cannot be read: it is a folder");
}

TEST(ConfigErrors, InvalidYaml) {
  // What follows the colon is yaml-cpp's own wording.
  EXPECT_EQ(refused("model:\n  layers: 2\n width: 3\n").substr(0, 28), "x.yaml:3 is not valid YAML: ");
  EXPECT_EQ(override_refused("pipeline.split=[1, 2").substr(0, 51),
            "override 'pipeline.split=[1, 2' is not valid YAML: ");
  EXPECT_EQ(refused("model: {layers: 2}\n---\nmodel: {layers: 3}\n"),
            "x.yaml holds several YAML documents; it must hold one");
}

TEST(ConfigErrors, OverridesThatSetNothing) {
  for (const std::string bad : {"pipeline.stages", "=4", ""}) {
    EXPECT_EQ(override_refused(bad),
              "override '" + bad + "' is not a setting; it must be key=value, such as pipeline.stages=4");
  }
}

TEST(ConfigErrors, ValidateNamesNoPlace) {
  Config config;
  config.pipeline.stages = 0;
  EXPECT_EQ(refusal([&] { validate(config); }),
            "pipeline.stages is 0; it must be a whole number of at least 1 and at most 65536");
  config = {};
  config.optimizer.name = "adam";
  EXPECT_EQ(refusal([&] { validate(config); }),
            "optimizer.name is 'adam'; it must be one of adamw, sgd, lion, lamb, muon");
}

}  // namespace
}  // namespace twobw
