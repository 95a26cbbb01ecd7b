// In 16 bits on CPU cores, with the loss scale that fp16 needs, a pipeline equals the serial oracle bit for
// bit, as in fp32.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "app/train/verify.h"
#include "core/base/config.h"
#include "engine/device/cpu.h"
#include "planning/host/cores.h"

namespace twobw {
namespace {
namespace precision {

using Settings = std::vector<std::string>;

// 17 layers: embedding, 3 x (attention_in, attention_out, mlp_up, mlp_activation, mlp_down), head.
Config small(const Settings& more) {
  Settings settings = {"model.layers=3",        "model.width=16",           "model.heads=2",
                       "model.vocab=37",        "model.context=8",          "model.dropout=0.1",
                       "pipeline.microbatch=2", "pipeline.microbatches=4",  "optimizer.warmup=2",
                       "optimizer.lr=1e-2",     "optimizer.clip=0.5",       "train.updates=7",
                       "train.eval_every=3",    "train.eval_microbatches=2"};
  settings.insert(settings.end(), more.begin(), more.end());
  Config config = load_config("", settings);
  // Else GPUs would be taken, where there are any.
  config.devices.assign(static_cast<std::size_t>(config.pipeline.stages) * config.pipeline.replicas,
                        device::core_names().front());
  return config;
}

train::Verification verified(const Settings& more) {
  device::initialize();
  train::Verification result = train::verify(small(more));
  EXPECT_TRUE(result.equal) << result.difference;
  EXPECT_TRUE(std::isfinite(result.final_loss));
  return result;
}

struct Layout {
  const char* stages;
  const char* split;
};
const std::vector<Layout> kLayouts = {{"pipeline.stages=1", "pipeline.split=[17]"},
                                      {"pipeline.stages=2", "pipeline.split=[4,13]"},
                                      {"pipeline.stages=3", "pipeline.split=[1,4,12]"},
                                      {"pipeline.stages=4", "pipeline.split=[2,5,5,5]"}};

TEST(Bfloat16, EveryScheduleOnOneToFourStages) {
  for (const Layout& layout : kLayouts) {
    for (const char* schedule : {"sequential", "gpipe", "flush", "2bw", "stash"}) {
      SCOPED_TRACE(std::string(schedule) + " " + layout.split);
      verified({"train.precision=bf16", layout.stages, layout.split,
                std::string("pipeline.schedule=") + schedule});
    }
  }
}

TEST(Bfloat16, TheRulesOf2BW) {
  const Settings base = {"train.precision=bf16", "pipeline.stages=3", "pipeline.split=[1,4,12]",
                         "pipeline.schedule=2bw"};
  for (const Settings& more :
       std::vector<Settings>{{"pipeline.predict=false"},
                             {"pipeline.second_gradient=false", "pipeline.recompute=[0]"},
                             {"pipeline.microbatches=7", "pipeline.sync_updates=2"},
                             {"pipeline.replicas=2"}}) {
    Settings settings = base;
    settings.insert(settings.end(), more.begin(), more.end());
    SCOPED_TRACE(more.front());
    verified(settings);
  }
}

TEST(Bfloat16, EveryFamilyAndHead) {
  for (const Settings& more :
       std::vector<Settings>{{"model.family=llama", "model.kv_heads=1", "model.dropout=0"},
                             {"model.family=llama", "model.qk_norm=true", "model.qkv_bias=true",
                              "model.dropout=0", "model.head=classification", "model.labels=3"},
                             {"model.family=bert"},
                             {"model.family=bert", "model.head=classification", "model.labels=3"},
                             {"model.family=bert", "model.head=regression"},
                             {"model.head=regression"},
                             {"model.tied=false"}}) {
    Settings settings = {"train.precision=bf16", "pipeline.stages=2", "pipeline.schedule=2bw"};
    settings.insert(settings.end(), more.begin(), more.end());
    SCOPED_TRACE(more.front());
    verified(settings);
  }
}

TEST(Bfloat16, EveryOptimizer) {
  for (const char* name : {"sgd", "lion", "lamb", "muon"}) {
    SCOPED_TRACE(name);
    verified({"train.precision=bf16", "pipeline.stages=2", "pipeline.split=[4,13]", "pipeline.schedule=2bw",
              std::string("optimizer.name=") + name, "optimizer.lr=1e-3"});
  }
}

// Else the tests above would hold with everything in fp32.
TEST(Bfloat16, RoundsAndStaysNearSinglePrecision) {
  const Settings flush = {"pipeline.schedule=flush", "pipeline.stages=2", "pipeline.split=[4,13]"};
  Settings rounded = flush;
  rounded.emplace_back("train.precision=bf16");
  const double exact = verified(flush).final_loss, near = verified(rounded).final_loss;
  EXPECT_NE(near, exact);
  EXPECT_NEAR(near, exact, 0.03 * exact);
}

// From a scale at which gradients overflow to one where they do not, and, after two batches, up again: so
// that batches are skipped all along, and each scale holds for few of them.
const Settings kScaled = {"train.precision=fp16", "train.loss_scale=16777216", "train.loss_scale_window=2",
                          "train.updates=14"};

Settings scaled(const Settings& more) {
  Settings settings = kScaled;
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

TEST(Float16, AllStagesAgreeOnTheLossScaleUnderEverySchedule) {
  for (const Layout& layout : kLayouts) {
    for (const char* schedule : {"sequential", "gpipe", "flush", "2bw", "stash"}) {
      SCOPED_TRACE(std::string(schedule) + " " + layout.split);
      const train::Verification result =
          verified(scaled({layout.stages, layout.split, std::string("pipeline.schedule=") + schedule}));
      EXPECT_GT(result.skipped, 0);
      EXPECT_LT(result.skipped, 14);
    }
  }
}

TEST(Float16, TheRulesOf2BW) {
  for (const Settings& more :
       std::vector<Settings>{{"pipeline.predict=false"},
                             {"pipeline.second_gradient=false", "pipeline.recompute=[0]"},
                             {"pipeline.microbatches=7", "pipeline.sync_updates=2"},
                             {"pipeline.replicas=2"},
                             {"optimizer.name=muon", "optimizer.lr=1e-3"},
                             {"optimizer.name=lamb", "optimizer.lr=1e-3"},
                             {"optimizer.clip=0", "optimizer.name=sgd"}}) {
    Settings settings = scaled({"pipeline.stages=3", "pipeline.split=[1,4,12]", "pipeline.schedule=2bw"});
    settings.insert(settings.end(), more.begin(), more.end());
    SCOPED_TRACE(more.front());
    EXPECT_GT(verified(settings).skipped, 0);
  }
}

TEST(Float16, EveryFamilyAndHead) {
  for (const Settings& more :
       std::vector<Settings>{{"model.family=llama", "model.kv_heads=1", "model.dropout=0"},
                             {"model.family=bert"},
                             {"model.family=bert", "model.head=classification", "model.labels=3"},
                             {"model.family=bert", "model.head=regression"}}) {
    Settings settings = scaled({"pipeline.stages=2", "pipeline.schedule=2bw"});
    settings.insert(settings.end(), more.begin(), more.end());
    SCOPED_TRACE(more.back());
    EXPECT_GT(verified(settings).skipped, 0);
  }
}

// What the scale is for: without it small gradients vanish. With it the run is near that in fp32.
TEST(Float16, StaysNearSinglePrecision) {
  const Settings flush = {"pipeline.schedule=flush", "pipeline.stages=2", "pipeline.split=[4,13]"};
  Settings rounded = flush;
  rounded.insert(rounded.end(), {"train.precision=fp16", "train.loss_scale=1024"});
  const double exact = verified(flush).final_loss;
  const train::Verification half = verified(rounded);
  EXPECT_EQ(half.skipped, 0);
  EXPECT_NE(half.final_loss, exact);
  EXPECT_NEAR(half.final_loss, exact, 0.01 * exact);
}

}  // namespace precision
}  // namespace
}  // namespace twobw
