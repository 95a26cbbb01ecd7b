#include "measure/trial_run.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "device/cpu.h"

namespace twobw::measure {
namespace {

Config tiny(const std::vector<std::string>& more) {
  std::vector<std::string> settings = {
      "model.layers=1",       "model.width=16",        "model.heads=2",      "model.vocab=32",
      "model.context=8",      "pipeline.microbatch=1", "pipeline.stages=1",  "devices=[cpu:0]",
      "optimizer.warmup=0",   "train.updates=1000",    "train.eval_every=1", "pipeline.microbatches=2",
      "pipeline.schedule=2bw"};
  settings.insert(settings.end(), more.begin(), more.end());
  return load_config("", settings);
}

// Neither evaluations nor the length of the run they stand for cost any time here.
TEST(Trial, EveryRunHasARate) {
  device::initialize();
  for (const Config& config :
       {tiny({}), tiny({"pipeline.schedule=flush"}), tiny({"pipeline.sync_updates=900"})})
    EXPECT_GT(try_run(config).tokens_per_s, 0);
}

TEST(Trial, ARunThatCannotBeIsRefused) {
  device::initialize();
  Config config = tiny({});
  config.pipeline.stages = 100;
  EXPECT_THROW(try_run(config), InputError);
}

}  // namespace
}  // namespace twobw::measure
