#include "core/base/pipeline_shape.h"

#include <algorithm>
#include <numeric>

namespace twobw {

std::string_view name(ScheduleKind kind) {
  constexpr std::string_view kNames[] = {"sequential", "gpipe", "flush", "2bw", "stash"};
  return kNames[static_cast<std::size_t>(kind)];
}

const std::vector<ScheduleKind>& all_kinds() {
  static const std::vector<ScheduleKind> kinds = {ScheduleKind::Sequential, ScheduleKind::GPipe,
                                                  ScheduleKind::Flush, ScheduleKind::TwoBW,
                                                  ScheduleKind::Stash};
  return kinds;
}

int PipelineShape::first_layer(int stage) const {
  return std::accumulate(split.begin(), split.begin() + stage, 0);
}

bool PipelineShape::recomputes(int stage) const {
  return std::find(recompute.begin(), recompute.end(), stage) != recompute.end();
}

std::optional<int> PartialShape::first_layer(int stage) const {
  if (split.empty()) return std::nullopt;
  return std::accumulate(split.begin(), split.begin() + stage, 0);
}

std::optional<bool> PartialShape::recomputes(int stage) const {
  if (!recomputing) return recompute;
  return std::ranges::find(*recomputing, stage) != recomputing->end();
}

}  // namespace twobw
