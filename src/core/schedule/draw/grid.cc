#include "core/schedule/draw/grid.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/schedule/draw/canvas.h"
#include "core/schedule/draw/grid_layout.h"

namespace twobw::schedule {
namespace {

constexpr std::int64_t margin = GridLayout::margin;

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

// The bar stands in the blank between two cells; the version before it, where there is room.
void put_mark(Line& above, Line& below, const UpdateMark& mark, const GridLayout& layout) {
  const std::int64_t bar = layout.column(mark.tick) - 1;
  const Style style = {.color = mark.version};
  above.put(bar, "|", style);
  below.put(bar, "|", style);
  // All of it, or the last that is written.
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

// The same spec with no more updates than can show in so many ticks: a forward takes one at least.
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
