#include "engine/transport/group.h"

#include <gtest/gtest.h>

#include <future>
#include <latch>
#include <string>
#include <thread>
#include <vector>

namespace twobw::transport {
namespace {

using Numbers = std::vector<double>;
using Seconds = std::chrono::duration<double>;

Norms of(Numbers values) {
  return {.values = std::move(values)};
}

Numbers collected(NormExchange& group, std::int64_t update) {
  Numbers all;
  for (const Norms& norms : group.collect(update))
    all.insert(all.end(), norms.values.begin(), norms.values.end());
  return all;
}

TEST(NormExchange, WaitsForTheLastStageAndNamesTheUpdate) {
  WaitHub hub(Seconds(0.01));
  NormExchange group(hub, 3);
  group.contribute(4, 0, of({1}));
  group.contribute(4, 2, of({1}));
  try {
    group.collect(4);
    FAIL() << "collected what stage 1 never gave";
  } catch (const WaitTimeout& error) {
    EXPECT_NE(std::string(error.what()).find("gradient norms of update 4 from all 3 stages"),
              std::string::npos);
  }
  group.contribute(4, 1, of({1}));
  EXPECT_EQ(collected(group, 4).size(), 3u);
}

TEST(NormExchange, EveryReplicaCollectsTheContributionOfOne) {
  WaitHub hub(Seconds(0.01));
  NormExchange group(hub, 2, 3);
  group.contribute(0, 0, of({1}));
  group.contribute(0, 1, of({2}));
  for (int worker = 0; worker < 6; ++worker) EXPECT_EQ(collected(group, 0), (Numbers{1, 2}));
  EXPECT_THROW(group.collect(0), WaitTimeout);
}

// With sharded optimizer state every owner contributes.
TEST(NormExchange, GathersThePartsOfOwnersInTheOrderOfTheStages) {
  WaitHub hub(Seconds(60));
  NormExchange group(hub, 2, 3, /*owners=*/3);
  for (const int part : {4, 0, 5, 1, 3, 2}) group.contribute(0, part, {.values = {1.0 * part}});
  for (int collector = 0; collector < 6; ++collector)
    EXPECT_EQ(collected(group, 0), (Numbers{0, 1, 2, 3, 4, 5}));
}

TEST(NormExchange, ExchangesContributionsWithOtherProcesses) {
  WaitHub hub(Seconds(0.01));
  NormExchange group(hub, 2);
  std::vector<std::pair<std::int64_t, int>> told;
  group.share(1, [&](std::int64_t update, int stage, const Norms& norms) {
    EXPECT_EQ(norms.values, Numbers{1});
    told.emplace_back(update, stage);
  });
  group.contribute(5, 0, of({1}));
  group.contribute_from_afar(5, 1, of({2}));
  EXPECT_EQ(told, (std::vector<std::pair<std::int64_t, int>>{{5, 0}}));
  EXPECT_EQ(collected(group, 5), (Numbers{1, 2}));
  EXPECT_THROW(group.collect(5), WaitTimeout);  // the one worker here has it
}

TEST(NormExchange, CarriesManyUpdatesBetweenThreads) {
  constexpr int kStages = 4, kUpdates = 200;
  WaitHub hub(Seconds(60));
  NormExchange group(hub, kStages);
  std::vector<std::future<bool>> stages;
  for (int stage = 0; stage < kStages; ++stage) {
    stages.push_back(std::async(std::launch::async, [&, stage] {
      bool right = true;
      const auto collect = [&](int t) {
        const Numbers expected = {t + 0.0, t + 0.25, t + 0.5, t + 0.75};
        right = collected(group, t) == expected && right;
      };
      const int behind = stage % 3;  // some collect at once, some one or two updates later
      for (int t = 0; t < kUpdates; ++t) {
        group.contribute(t, stage, of({t + stage / 4.0}));
        if (t >= behind) collect(t - behind);
      }
      for (int t = kUpdates - behind; t < kUpdates; ++t) collect(t);
      return right;
    }));
  }
  for (auto& stage : stages) EXPECT_TRUE(stage.get());
}

TEST(BatchGate, ASaveIsOfTheNextBatchAndAStopComesAfterIt) {
  WaitHub hub(Seconds(5));
  BatchGate gate(hub);
  EXPECT_TRUE(gate.decide(0));
  EXPECT_FALSE(gate.saves_before(0));
  gate.request_save(/*stop=*/false);
  EXPECT_TRUE(gate.decide(1));
  EXPECT_TRUE(gate.saves_before(1));
  EXPECT_TRUE(gate.decide(2));
  EXPECT_FALSE(gate.saves_before(2));
  gate.request_save(/*stop=*/true);
  EXPECT_TRUE(gate.decide(3));
  EXPECT_TRUE(gate.saves_before(3));
  EXPECT_FALSE(gate.decide(4));
  EXPECT_FALSE(gate.await(4));
}

// Two gates, of two processes: the other answers as the first decided.
TEST(BatchGate, DecisionsAreTheSameElsewhere) {
  WaitHub hub(Seconds(5));
  BatchGate gate(hub), elsewhere(hub);
  gate.share([&](const BatchGate::Decision& decision) { elsewhere.learn(decision); });
  for (std::int64_t batch = 0; batch < 5; ++batch) {
    if (batch == 1) gate.request_save(/*stop=*/false);
    if (batch == 3) gate.request_save(/*stop=*/true);
    EXPECT_EQ(gate.decide(batch), batch < 4);
    EXPECT_EQ(elsewhere.await(batch), batch < 4);
    EXPECT_EQ(elsewhere.saves_before(batch), batch == 1 || batch == 3) << batch;
  }
}

TEST(BatchGate, AnUndecidedBatchTimesOutWithItsName) {
  WaitHub hub(Seconds(0.01));
  BatchGate gate(hub);
  gate.decide(0);
  gate.request_stop();  // a request alone decides nothing
  try {
    gate.await(1);
    FAIL() << "answered before stage 0 did";
  } catch (const WaitTimeout& error) {
    EXPECT_NE(std::string(error.what()).find("decision on batch 1 from stage 0"), std::string::npos);
  }
}

// Whenever the request comes, all stages stop before the same batch.
TEST(BatchGate, AllStagesStopBeforeTheSameBatch) {
  WaitHub hub(Seconds(60));
  BatchGate gate(hub);
  const auto stop_of = [&](int stage) {
    std::int64_t batch = 0;
    while (stage == 0 ? gate.decide(batch) : gate.await(batch)) ++batch;
    return batch;
  };
  std::vector<std::future<std::int64_t>> stages;
  for (int stage = 0; stage < 3; ++stage) stages.push_back(std::async(std::launch::async, stop_of, stage));
  EXPECT_TRUE(gate.await(20));
  gate.request_stop();
  const std::int64_t last = stages[0].get();
  EXPECT_GT(last, 20);
  EXPECT_EQ(stages[1].get(), last);
  EXPECT_EQ(stages[2].get(), last);
}

}  // namespace
}  // namespace twobw::transport
