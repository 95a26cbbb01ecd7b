#include "engine/runtime/sum_ranges.h"

#include <algorithm>

namespace twobw::runtime {
namespace {

using transport::SumRange;
using transport::SumRanges;

// Of the parameters with weights of their own, rising.
std::vector<weights::Range> tied_weights(const weights::Layout& layout, Ties which) {
  std::vector<weights::Range> tied;
  for (const weights::Tie& tie : layout.ties()) {
    if (which == Ties::WithinTheStage && tie.spans()) continue;
    const weights::Parameter& parameter = layout.parameters()[tie.primary >= 0 ? tie.primary : tie.copy];
    tied.push_back({parameter.offset, weights::Layout::room_of(parameter.count)});
  }
  std::ranges::sort(tied, {}, &weights::Range::begin);
  return tied;
}

void add_range(SumRanges& ranges, std::int64_t begin, std::int64_t end, int owner) {
  if (end > begin) ranges.push_back({.begin = begin, .count = end - begin, .owner = owner});
}

}  // namespace

SumRanges sum_ranges(const weights::Layout& layout, const std::vector<weights::Range>& shards,
                     Ties summed_everywhere) {
  const std::vector<weights::Range> tied = tied_weights(layout, summed_everywhere);
  SumRanges ranges;
  for (int owner = 0; owner < std::ssize(shards); ++owner) {
    const weights::Range& shard = shards[owner];
    std::int64_t at = shard.begin;
    for (const weights::Range& range : tied) {
      const std::int64_t begin = std::max(at, range.begin), end = std::min(shard.end(), range.end());
      if (end <= begin) continue;
      add_range(ranges, at, begin, owner);
      add_range(ranges, begin, end, SumRange::kAll);
      at = end;
    }
    add_range(ranges, at, shard.end(), owner);
  }
  add_range(ranges, layout.size(), layout.gradient_size(), SumRange::kAll);  // of aliases
  return ranges;
}

}  // namespace twobw::runtime
