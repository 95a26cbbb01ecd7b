// Which links between processes are measured, and which of them at the same time.
#pragma once

#include <string>
#include <vector>

namespace twobw::measure {

struct RankPair {
  int asks = 0, answers = 0;  // ranks

  friend bool operator==(const RankPair&, const RankPair&) = default;
};

// The ranks of every host, in the order of their first. `hosts`: what tells them apart, by rank.
std::vector<std::vector<int>> ranks_by_host(const std::vector<std::string>& hosts);

// Two processes of every host that has several, all in one round; then the first processes of every two
// hosts, each two once, in rounds in which a host is part of one pair only, so that none disturbs another.
std::vector<std::vector<RankPair>> rounds_of(const std::vector<std::string>& hosts);

}  // namespace twobw::measure
