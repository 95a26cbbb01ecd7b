#include "engine/runtime/rank_map.h"

#include <gtest/gtest.h>

namespace twobw::runtime {
namespace {

using Numbers = std::vector<int>;

PipelineShape shape_of(int stages, int replicas) {
  return {.stages = stages, .replicas = replicas};
}

TEST(RankMap, OneProcessHasAllWorkers) {
  const RankMap alone(shape_of(3, 2), 1, 0);
  EXPECT_EQ(alone.workers_here(), 6);
  for (int worker = 0; worker < 6; ++worker) EXPECT_TRUE(alone.is_here(worker));
  EXPECT_EQ(alone.replicas_here(1), 2);
  EXPECT_FALSE(alone.spans_processes(1));
}

TEST(RankMap, ProcessesTakeWorkersInTheirOrder) {
  const RankMap second(shape_of(2, 4), 4, 1);  // a replica each
  EXPECT_EQ(second.first_worker(), 2);
  EXPECT_EQ(second.workers_here(), 2);
  EXPECT_FALSE(second.is_here(1));
  EXPECT_TRUE(second.is_here(2));
  EXPECT_TRUE(second.is_here(3));
  EXPECT_FALSE(second.is_here(4));
  EXPECT_EQ(second.ranks_of_stage(0), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(second.replicas_here(0), 1);
  EXPECT_TRUE(second.spans_processes(0));
}

// Two stages of three replicas in two processes.
TEST(RankMap, AProcessMayHaveMoreReplicasOfOneStageThanOfAnother) {
  const RankMap first(shape_of(2, 3), 2, 0);
  EXPECT_EQ(first.ranks_of_stage(0), (Numbers{0, 0, 1}));
  EXPECT_EQ(first.ranks_of_stage(1), (Numbers{0, 1, 1}));
  EXPECT_EQ(first.replicas_here(0), 2);
  EXPECT_EQ(first.replicas_here(1), 1);
}

}  // namespace
}  // namespace twobw::runtime
