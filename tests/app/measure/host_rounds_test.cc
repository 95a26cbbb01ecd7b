#include "app/measure/host_rounds.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace twobw::measure {
namespace {

using Rounds = std::vector<std::vector<RankPair>>;

TEST(HostRounds, FindTheRanksOfEveryHost) {
  EXPECT_EQ(ranks_by_host({"b", "a", "b", "a", "c"}), (std::vector<std::vector<int>>{{0, 2}, {1, 3}, {4}}));
}

TEST(HostRounds, OfOneHostAreOnePair) {
  EXPECT_EQ(rounds_of({"a", "a", "a"}), (Rounds{{{0, 1}}}));
  EXPECT_EQ(rounds_of({"a"}), Rounds());
}

TEST(HostRounds, OfTwoHostsAreInsideAndBetween) {
  EXPECT_EQ(rounds_of({"a", "a", "b", "b"}), (Rounds{{{0, 1}, {2, 3}}, {{0, 2}}}));
  EXPECT_EQ(rounds_of({"a", "b"}), (Rounds{{{0, 1}}}));
}

TEST(HostRounds, MeetEveryTwoHostsOnceAndNoneTwiceAtATime) {
  for (int hosts = 2; hosts <= 9; ++hosts) {
    std::vector<std::string> names;
    for (int i = 0; i < hosts; ++i) names.push_back(std::to_string(i));
    const Rounds rounds = rounds_of(names);
    EXPECT_EQ(std::ssize(rounds), hosts - 1 + hosts % 2);
    std::set<std::pair<int, int>> met;
    for (const auto& round : rounds) {
      std::set<int> busy;
      for (const RankPair& pair : round) {
        EXPECT_LT(pair.asks, pair.answers);
        EXPECT_TRUE(met.insert({pair.asks, pair.answers}).second) << pair.asks << " and " << pair.answers;
        EXPECT_TRUE(busy.insert(pair.asks).second && busy.insert(pair.answers).second);
      }
    }
    EXPECT_EQ(std::ssize(met), hosts * (hosts - 1) / 2);
  }
}

}  // namespace
}  // namespace twobw::measure
