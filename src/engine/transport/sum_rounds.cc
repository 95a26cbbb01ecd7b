#include "engine/transport/sum_rounds.h"

#include <algorithm>
#include <iterator>

namespace twobw::transport {
namespace {

constexpr std::int64_t kMultiple = 4;  // elements, 16 bytes, that parts of a range are multiples of

// Every process adds a part.
void add_for_all(const SumRange& range, const std::vector<int>& processes, std::int64_t piece,
                 std::vector<SumRound>& rounds) {
  const std::int64_t parts = std::ssize(processes), step = piece * parts;
  for (std::int64_t begin = range.begin; begin < range.end(); begin += step) {
    const std::int64_t count = std::min(step, range.end() - begin);
    SumRound& round = rounds.emplace_back();
    const std::int64_t share = (count + parts - 1) / parts,
                       each = (share + kMultiple - 1) / kMultiple * kMultiple;
    for (int process = 0; process < parts && process * each < count; ++process) {
      const std::int64_t part = std::min(each, count - process * each);
      round.push_back(
          {.range = {.begin = begin + process * each, .count = part}, .rank = processes[process]});
    }
  }
}

// A piece of every owner in each round, so that all are busy.
void add_for_owners(const SumRanges& ranges, const std::vector<int>& ranks, std::int64_t piece,
                    std::vector<SumRound>& rounds) {
  std::vector<std::size_t> next(ranks.size(), rounds.size());  // round, by owner
  for (const SumRange& range : ranges) {
    if (range.owner == SumRange::kAll) continue;
    for (std::int64_t begin = range.begin; begin < range.end(); begin += piece) {
      const std::size_t round = next[range.owner]++;
      if (round == rounds.size()) rounds.emplace_back();
      const std::int64_t count = std::min(piece, range.end() - begin);
      rounds[round].push_back(
          {.range = {.begin = begin, .count = count, .owner = range.owner}, .rank = ranks[range.owner]});
    }
  }
}

}  // namespace

std::vector<int> distinct(const std::vector<int>& ranks) {
  std::vector<int> once;
  std::ranges::unique_copy(ranks, std::back_inserter(once));
  return once;
}

std::vector<SumRound> sum_rounds(const SumRanges& ranges, const std::vector<int>& ranks, std::int64_t piece) {
  const std::vector<int> processes = distinct(ranks);
  std::vector<SumRound> rounds;
  for (const SumRange& range : ranges) {
    if (range.owner == SumRange::kAll) add_for_all(range, processes, piece, rounds);
  }
  add_for_owners(ranges, ranks, piece, rounds);
  return rounds;
}

}  // namespace twobw::transport
