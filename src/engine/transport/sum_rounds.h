// The plan of a sum over replicas: which process adds which elements in which round, and who receives the
// result. The same in all processes. Plain values, no LibTorch.
#pragma once

#include <cstdint>
#include <vector>

namespace twobw::transport {

// Replicas of one stage on GPUs: one kernel launch takes the addresses of all buffers.
constexpr int kMostReplicasOnGpus = 32;

// A range of elements whose sum goes into every replica's buffer, or only into the owner's; in the other
// buffers the range is then undefined.
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

// Each rank once; `ranks` ascend.
std::vector<int> distinct(const std::vector<int>& ranks);

// `ranks`: of each replica, ascending. `piece`: elements that a process, or an owner, adds in a round at
// most, rounded up to 16 bytes.
std::vector<SumRound> sum_rounds(const SumRanges& ranges, const std::vector<int>& ranks, std::int64_t piece);

}  // namespace twobw::transport
