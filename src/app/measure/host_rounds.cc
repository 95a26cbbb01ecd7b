#include "app/measure/host_rounds.h"

#include <algorithm>
#include <map>

namespace twobw::measure {

std::vector<std::vector<int>> ranks_by_host(const std::vector<std::string>& hosts) {
  std::vector<std::vector<int>> ranks;
  std::map<std::string, std::size_t> known;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto [found, added] = known.try_emplace(hosts[rank], ranks.size());
    if (added) ranks.emplace_back();
    ranks[found->second].push_back(static_cast<int>(rank));
  }
  return ranks;
}

std::vector<std::vector<RankPair>> rounds_of(const std::vector<std::string>& hosts) {
  const std::vector<std::vector<int>> ranks = ranks_by_host(hosts);
  std::vector<std::vector<RankPair>> rounds;
  std::vector<RankPair> inside;
  for (const std::vector<int>& host : ranks) {
    if (host.size() > 1) inside.push_back({host[0], host[1]});
  }
  if (!inside.empty()) rounds.push_back(inside);
  // As in a tournament: all sit in a circle and move on by one seat, but for the first; who sits opposite is
  // met. With an odd number one seat is empty.
  const std::size_t seats = ranks.size() + ranks.size() % 2;
  for (std::size_t round = 0; round + 1 < seats; ++round) {
    const auto host_at = [&](std::size_t seat) {
      return seat == 0 ? 0 : 1 + (seat - 1 + round) % (seats - 1);
    };
    std::vector<RankPair> pairs;
    for (std::size_t seat = 0; seat < seats / 2; ++seat) {
      const auto [one, other] = std::minmax({host_at(seat), host_at(seats - 1 - seat)});
      if (other < ranks.size()) pairs.push_back({ranks[one].front(), ranks[other].front()});
    }
    if (!pairs.empty()) rounds.push_back(pairs);
  }
  return rounds;
}

}  // namespace twobw::measure
