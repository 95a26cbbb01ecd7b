#include "core/schedule/draw/grid_layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace twobw::schedule {
namespace {

std::string label_of(const Instruction& instruction) {
  if (instruction.op == Op::Forward) return fmt::format("{}", instruction.microbatch);
  if (instruction.op == Op::Backward) return fmt::format("{}'", instruction.microbatch);
  return "E";
}

void add_mark(Row& row, std::int64_t tick, std::int64_t version, char sign) {
  const bool first = row.marks.empty() || row.marks.back().tick != tick;
  if (first) row.marks.push_back({tick, version, ""});
  row.marks.back().version = version;
  row.marks.back().text += fmt::format("{}{}", sign, version);
}

Row row_of(const std::vector<Instruction>& list, const std::vector<Span>& times, std::int64_t ticks) {
  Row row;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Span& span = times[i];
    if (list[i].op == Op::Step && span.end <= ticks) add_mark(row, span.end, list[i].version, '>');
    if (list[i].op == Op::Restore && span.end <= ticks) add_mark(row, span.end, list[i].version, '<');
    if (list[i].op == Op::Save && span.end <= ticks) add_mark(row, span.end, list[i].version, '$');
    if (list[i].op == Op::Predict && span.end <= ticks) add_mark(row, span.end, list[i].version, '~');
    if (span.end > span.start && span.start < ticks) {
      row.cells.push_back({span, label_of(list[i]), list[i].version, list[i].predicted});
    }
  }
  return row;
}

std::int64_t tick_width(const std::vector<Row>& rows) {
  std::int64_t width = 2;
  for (const Row& row : rows) {
    for (const Cell& cell : row.cells) {
      const std::int64_t ticks = cell.span.end - cell.span.start;
      const std::int64_t label = std::max<std::int64_t>(std::ssize(cell.label), std::ssize(cell.weights()));
      width = std::max(width, (label + ticks) / ticks);
    }
  }
  return width;
}

}  // namespace

std::string Cell::weights() const {
  return predicted ? "~" : fmt::format("{}", version);
}

GridLayout lay_out(const Lists& lists, const Execution& execution, std::int64_t ticks) {
  GridLayout layout;
  const std::int64_t all = execution.ticks();
  layout.ticks = ticks > 0 ? std::min(ticks, all) : all;
  layout.cut = layout.ticks < all;
  for (std::size_t r = 0; r < lists.size(); ++r) {
    layout.rows.push_back(row_of(lists[r], execution.times[r], layout.ticks));
  }
  layout.width = tick_width(layout.rows);
  return layout;
}

}  // namespace twobw::schedule
