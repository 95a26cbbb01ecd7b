// Sharded optimizer state (pipeline.shard_state): each replica keeps only its part.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/models/model.h"
#include "engine/optim/state.h"
#include "engine/runtime/pipeline.h"
#include "tests/engine/runtime/settings.h"
#include "tests/engine/runtime/shard_memory.h"

namespace twobw::runtime {
namespace {

TEST(ShardedMemory, IsTheForecastOfAReplicasPart) {
  for (const char* precision : {"fp32", "bf16"}) {
    for (const int w : {2, 3, 4}) {
      expect_memory_of_shards(short_config(
          fmt::format("pipeline.split=[6,6] pipeline.shard_state=true pipeline.replicas={} "
                      "pipeline.microbatches=4 train.precision={} model.tied=false model.width=64 "
                      "model.heads=2 model.vocab=256 train.updates=3",
                      w, precision)));
    }
  }
}

TEST(SumRangesTest, WhatIsTiedGoesToAllAndTheRestToItsOwner) {
  const models::Model model = models::build(short_config("model.width=16 model.heads=2").model);
  const OptimizerConfig optimizer;
  for (const auto& [first, last] : {std::pair(0, 12), std::pair(0, 5), std::pair(5, 12)}) {
    const weights::Layout layout(model.layers, first, last);
    const std::vector<weights::Range> shards = optim::shards_of(optimizer, layout, 3);
    for (const Ties ties : {Ties::All, Ties::WithinTheStage}) {
      std::int64_t at = 0, everywhere = 0;
      for (const transport::SumRange& range : sum_ranges(layout, shards, ties)) {
        EXPECT_EQ(range.begin, at);
        at = range.end();
        if (range.owner == transport::SumRange::kAll) {
          everywhere += range.count;
        } else {
          EXPECT_GE(range.begin, shards[range.owner].begin);
          EXPECT_LE(range.end(), shards[range.owner].end());
        }
      }
      EXPECT_EQ(at, layout.gradient_size());
      const bool both = first == 0 && last == 12;
      const std::int64_t tied = 37 * 16, alias = layout.gradient_size() - layout.size();
      EXPECT_EQ(everywhere, both ? tied + alias : ties == Ties::All ? tied : 0);
    }
  }
}

}  // namespace
}  // namespace twobw::runtime
