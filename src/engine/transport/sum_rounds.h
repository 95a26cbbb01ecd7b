// In which order several processes make a sum over replicas: rounds, in each of which every process adds some
// of the elements. The same in all processes.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/transport/replica_sum.h"

namespace twobw::transport {

struct SumChunk {
  SumRange range;
  int rank = 0;  // of the process that adds it
};
using SumRound = std::vector<SumChunk>;

// `ranks`: of each replica, rising. `piece`: elements that a process, or an owner, adds in a round at most,
// but for what fills up 16 bytes.
std::vector<SumRound> sum_rounds(const SumRanges& ranges, const std::vector<int>& ranks, std::int64_t piece);

}  // namespace twobw::transport
