#include "core/base/pipeline_shape.h"

#include <algorithm>
#include <numeric>

namespace twobw {

std::string_view name(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::Sequential:
      return "sequential";
    case ScheduleKind::GPipe:
      return "gpipe";
    case ScheduleKind::Flush:
      return "flush";
    case ScheduleKind::TwoBW:
      return "2bw";
    case ScheduleKind::Stash:
      return "stash";
  }
  return "?";
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
