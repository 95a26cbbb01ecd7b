// The parts of a sum over replicas: which elements go to whom, and the rounds in which several processes add
// them. The same in all processes. Plain values, no LibTorch.
#pragma once

#include <cstdint>
#include <vector>

namespace twobw::transport {

// Replicas of one stage on GPUs: one kernel launch takes the addresses of all buffers.
constexpr int kMostReplicasOnGpus = 32;

// The sum of some elements goes into every replica's buffer, or into that of their owner alone; elsewhere
// they are undefined then.
struct SumRange {
  std::int64_t begin = 0, count = 0;
  int owner = kAll;  // a replica

  static constexpr int kAll = -1;
  std::int64_t end() const { return begin + count; }
};
// All elements of the buffers, in their order; empty: every buffer takes the whole sum.
using SumRanges = std::vector<SumRange>;

struct SumChunk {
  SumRange range;
  int rank = 0;  // of the process that adds it
};
using SumRound = std::vector<SumChunk>;

// `ranks`: of each replica, rising. `piece`: elements that a process, or an owner, adds in a round at most,
// rounded up to 16 bytes.
std::vector<SumRound> sum_rounds(const SumRanges& ranges, const std::vector<int>& ranks, std::int64_t piece);

}  // namespace twobw::transport
