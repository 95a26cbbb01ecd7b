#include "core/schedule/draw/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/schedule/draw/canvas.h"

namespace twobw::schedule {
namespace {

constexpr std::int64_t margin = 9;  // "stage 0  "

// One computation.
struct Cell {
  Span span;
  std::string label;  // "3", "3'" or "E"
  std::int64_t version = 0;
  bool predicted = false;

  // "2" for W(2), "~" for a prediction.
  std::string weights() const { return predicted ? "~" : fmt::format("{}", version); }
};

// The updates between two cells: ">1", or ">1>2" if two coincide.
struct UpdateMark {
  std::int64_t tick = 0;
  std::int64_t version = 0;  // the newest written
  std::string text;
};

struct Row {
  std::vector<Cell> cells;
  std::vector<UpdateMark> marks;
};

// Cells of every stage in ticks, and ticks in columns.
struct GridLayout {
  std::vector<Row> rows;   // by stage
  std::int64_t ticks = 0;  // drawn
  std::int64_t width = 0;  // columns per tick: every label fits its cell and leaves a blank
  bool cut = false;        // the drawing ends before the lists

  std::int64_t column(std::int64_t tick) const { return margin + tick * width; }
};

// The sign of an instruction that is marked between cells; '\0' for others.
char sign_of(Op op) {
  if (op == Op::Step) return '>';
  if (op == Op::Restore) return '<';
  if (op == Op::Save) return '$';
  return op == Op::Predict ? '~' : '\0';
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
    const char sign = sign_of(list[i].op);
    if (sign != '\0' && span.end <= ticks) add_mark(row, span.end, list[i].version, sign);
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

// `ticks`: draw only the first ones; 0: all.
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

Line line_of(const GridLayout& layout) {
  return Line(layout.column(layout.ticks) + (layout.cut ? 4 : 0));
}

std::string draw_ruler(const GridLayout& layout) {
  Line line = line_of(layout);
  line.put(margin - 6, "tick");
  for (std::int64_t tick = 0; tick < layout.ticks; tick += 5) {
    line.put(layout.column(tick), fmt::format("{}", tick));
  }
  return line.text(false);
}

void put_idle(Line& line, const Row& row, const GridLayout& layout) {
  std::int64_t tick = 0;
  const auto idle_until = [&](std::int64_t end) {
    for (; tick < end; ++tick) line.put(layout.column(tick), ".");
  };
  for (const Cell& cell : row.cells) {
    idle_until(cell.span.start);
    tick = cell.span.end;
  }
  idle_until(layout.ticks);
}

void put_cell(Line& above, Line& below, const Cell& cell, const GridLayout& layout) {
  const std::int64_t begin = layout.column(cell.span.start);
  // A cell cut off by the end of the drawing still shows its whole label.
  const std::int64_t columns = std::max<std::int64_t>(
      layout.column(std::min(cell.span.end, layout.ticks)) - 1 - begin, std::ssize(cell.label));
  const Style style = {.color = cell.version, .filled = true};
  const char fill = cell.span.end - cell.span.start > 1 ? '-' : ' ';
  std::string label = cell.label;
  label.resize(static_cast<std::size_t>(columns), fill);
  above.put(begin, label, style);
  below.put(begin, fmt::format("{:<{}}", cell.weights(), columns), style);
}

// The bar takes the blank between two cells, and the version the place before it, if that is free.
void put_mark(Line& above, Line& below, const UpdateMark& mark, const GridLayout& layout) {
  const std::int64_t bar = layout.column(mark.tick) - 1;
  const Style style = {.color = mark.version};
  above.put(bar, "|", style);
  below.put(bar, "|", style);
  // The whole text, or its last version.
  for (const std::string& text : {mark.text, mark.text.substr(mark.text.find_last_of(">~<$"))}) {
    const std::int64_t begin = bar - std::ssize(text);
    if (!below.blank(begin, bar)) continue;
    below.put(begin, text, style);
    break;
  }
}

std::string draw_row(std::size_t stage, const GridLayout& layout, bool color) {
  const Row& row = layout.rows[stage];
  Line above = line_of(layout);
  Line below = line_of(layout);
  above.put(0, fmt::format("stage {}", stage));
  below.put(margin - 3, "W");
  put_idle(above, row, layout);
  for (const Cell& cell : row.cells) put_cell(above, below, cell, layout);
  for (const UpdateMark& mark : row.marks) put_mark(above, below, mark, layout);
  if (layout.cut) above.put(layout.column(layout.ticks) + 1, "...");
  return above.text(color) + below.text(color);
}

// The spec with no more updates than `ticks` can show: a forward takes at least one.
Spec shortened(Spec spec, const GridOptions& options, std::int64_t ticks) {
  const std::int64_t begun = ticks / (spec.shape.microbatches * options.costs.forward);
  spec.updates = std::min(spec.updates, begun + 2);
  return spec;
}

template <typename Function>
std::string by_stage(const Spec& spec, Function of_stage) {
  std::string text;
  for (int stage = 0; stage < spec.shape.stages; ++stage) text += fmt::format(" {}", of_stage(spec, stage));
  return text;
}

std::string legend(const Spec& spec) {
  const bool predicts = spec.shape.predicts();
  return fmt::format("5 forward, 5' backward of microbatch 5, under it the t of its weights W(t){}\n",
                     predicts ? ", ~ if P of its batch" : "") +
         fmt::format("{}>1| writes W(1), {}{}. idle\n", spec.evaluate_every > 0 ? "E evaluation, " : "",
                     predicts ? "~1| predicts P(1), " : "",
                     spec.save_every > 0 || spec.save_last ? "$1| saves W(1), " : "");
}

std::string summary(const Spec& spec, const Costs& costs) {
  const double period = steady_ticks_per_batch(spec, costs);
  const double work = static_cast<double>(spec.shape.microbatches * (costs.forward + costs.backward));
  return fmt::format("steady state: {:.1f}% busy, {:g} ticks a batch\n", 100 * work / period, period) +
         fmt::format("by stage: weight versions{}, gradient buffers{}, microbatches in flight{}\n",
                     by_stage(spec, versions_kept), by_stage(spec, gradient_buffers),
                     by_stage(spec, in_flight_bound)) +
         (spec.shape.predicts() ? "predicts from the first " + describe_prediction(spec) + "\n" : "");
}

}  // namespace

std::string draw_grid(const Lists& lists, const GridOptions& options) {
  const GridLayout layout = lay_out(lists, execute(lists, options.costs), options.ticks);
  std::string text = draw_ruler(layout);
  for (std::size_t stage = 0; stage < lists.size(); ++stage) text += draw_row(stage, layout, options.color);
  return text;
}

std::int64_t ticks_that_fit(const Spec& spec, const GridOptions& options, std::int64_t columns) {
  const std::int64_t room = std::max<std::int64_t>(columns - margin - 4, 2);
  const Lists lists = all_instructions(shortened(spec, options, room / 2));
  const GridLayout widest = lay_out(lists, execute(lists, options.costs), room / 2);
  return std::max<std::int64_t>(room / widest.width, 1);
}

std::string draw(const Spec& spec, const GridOptions& options) {
  const Spec drawn = options.ticks > 0 ? shortened(spec, options, options.ticks) : spec;
  return draw_grid(all_instructions(drawn), options) + '\n' + legend(spec) + summary(spec, options.costs);
}

}  // namespace twobw::schedule
