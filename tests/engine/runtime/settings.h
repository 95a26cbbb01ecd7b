// Configurations of short runs as lists of settings, for tests of pipelines.
#pragma once

#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/base/error.h"
#include "core/schedule/spec.h"
#include "engine/models/model.h"
#include "engine/runtime/setup.h"
#include "planning/host/cores.h"
#include "tests/support/covering.h"

namespace twobw::runtime {

// Sums over several cores round differently, and a 16-bit run without `devices` takes GPUs.
inline void put_on_one_core(Config& config) {
  config.devices.assign(static_cast<std::size_t>(config.pipeline.workers()), device::core_names().front());
}

// A small model and few updates, changed by "pipeline.replicas=2 optimizer.clip=0". A split has 12 layers
// (embedding, 2 blocks of 5, head); the last stage takes the 13th of a masked language model.
inline Config short_config(const std::string& settings) {
  std::vector<std::string> all = {"model.layers=2",
                                  "model.width=24",
                                  "model.heads=3",
                                  "model.vocab=37",
                                  "model.context=10",
                                  "model.tied=true",
                                  "pipeline.microbatch=2",
                                  "pipeline.microbatches=6",
                                  "optimizer.warmup=2",
                                  "optimizer.lr=1e-2",
                                  "optimizer.clip=0.5",
                                  "train.updates=5",
                                  "train.loss_scale=4194304",
                                  "train.loss_scale_window=2",
                                  "train.eval_every=2",
                                  "train.eval_microbatches=2"};
  std::istringstream words(settings);
  for (std::string word; words >> word;) {
    const std::string split = "pipeline.split=";
    if (word.starts_with(split))
      all.push_back(fmt::format("pipeline.stages={}", 1 + std::ranges::count(word, ',')));
    all.push_back(word);
  }
  Config config = load_config("", all);
  std::vector<int>& split = config.pipeline.split;
  const int layers = architecture::model_of(config.model).size();
  if (!split.empty()) split.back() += layers - std::accumulate(split.begin(), split.end(), 0);
  if (config.train.precision != "fp32" && config.devices.empty()) put_on_one_core(config);
  return config;
}

// Processes come as "processes=2"; "processes=all" is one for each worker.
struct Setting {
  Config config;
  int processes = 1;
};

inline Setting setting_of(std::string settings) {
  const std::string key = "processes=";
  const std::size_t at = settings.find(key);
  if (at == std::string::npos) return {.config = short_config(settings)};
  const std::size_t end = std::min(settings.find(' ', at), settings.size());
  const std::string processes = settings.substr(at + key.size(), end - at - key.size());
  const Config config = short_config(settings.erase(at, end - at));
  return {config, processes == "all" ? config.pipeline.workers() : std::stoi(processes)};
}

// Whether the program accepts them.
inline bool is_valid(const std::string& settings) {
  try {
    const auto [config, processes] = setting_of(settings);
    check_split(config, models::build(config.model));
    schedule::validate(spec_of(config));
    return config.pipeline.workers() % processes == 0;
  } catch (const InputError&) {
    return false;
  }
}

// `base`: settings that the combinations are added to, with a space at the end.
inline std::vector<std::string> covering(std::vector<Factor> factors, const std::string& base = "") {
  return Covering(std::move(factors), [&](const std::string& settings) { return is_valid(base + settings); })
      .combinations();
}

// Factors of several tests.
namespace factors {
inline const Factor kSchedules = {"",
                                  "pipeline.predict=false",
                                  "pipeline.schedule=sequential",
                                  "pipeline.schedule=gpipe",
                                  "pipeline.schedule=flush",
                                  "pipeline.schedule=stash"};
inline const Factor kSplits = {"pipeline.split=[5,7]", "pipeline.split=[12]", "pipeline.split=[1,6,5]",
                               "pipeline.split=[1,5,5,1]", "pipeline.split=[2,4,4,2]"};
inline const Factor kMicrobatches = {"pipeline.microbatches=6", "pipeline.microbatches=2",
                                     "pipeline.microbatches=3", "pipeline.microbatches=4",
                                     "pipeline.microbatches=9"};
inline const Factor kReplicas = {"", "pipeline.replicas=2", "pipeline.replicas=3"};
inline const Factor kExtra = {"", "pipeline.extra=1", "pipeline.extra=2"};
inline const Factor kSyncUpdates = {"", "pipeline.sync_updates=1", "pipeline.sync_updates=2"};
inline const Factor kGradientBuffers = {"", "pipeline.double_buffer_gradients=false"};
inline const Factor kSlack = {"", "pipeline.step_slack=0", "pipeline.step_slack=2"};
inline const Factor kTies = {"", "pipeline.defer_tied_update=true"};
inline const Factor kStates = {"", "pipeline.shard_state=true"};
inline const Factor kRecompute = {"", "pipeline.recompute=[0]", "pipeline.recompute=[1]",
                                  "pipeline.recompute=[0,1]"};
inline const Factor kOptimizers = {"", "optimizer.name=sgd", "optimizer.name=lion optimizer.lr=1e-3",
                                   "optimizer.name=lamb", "optimizer.name=muon"};
inline const Factor kClipping = {"", "optimizer.clip=0"};
inline const Factor kPrecisions = {"", "train.precision=bf16", "train.precision=fp16"};
inline const Factor kFamilies = {"", "model.family=llama model.kv_heads=1",
                                 "model.family=llama model.qk_norm=true model.qkv_bias=true",
                                 "model.family=bert"};
inline const Factor kHeads = {"", "model.head=classification model.num_labels=3", "model.head=regression",
                              "model.next_sentence=true"};
inline const Factor kTyings = {"", "model.tied=false"};
inline const Factor kDocuments = {"", "model.reset_documents=true model.context=16"};
inline const Factor kDropout = {"", "model.dropout=0.1"};
inline const Factor kPrefetch = {"", "pipeline.prefetch=0", "pipeline.prefetch=1", "pipeline.prefetch=100"};
inline const Factor kProcesses = {"", "processes=2", "processes=all"};

}  // namespace factors
}  // namespace twobw::runtime
