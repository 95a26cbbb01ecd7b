#include "core/simulator/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/schedule/draw/canvas.h"

namespace twobw::simulator {
namespace {

using schedule::Event;
using schedule::label_of;
using schedule::Line;
using schedule::Op;

// The label, padded with at least one dash, which separates it from the next; only dashes if it does not fit.
std::string cell(const std::string& label, std::int64_t width) {
  std::string text(static_cast<std::size_t>(width), '-');
  if (std::ssize(label) < width || label == "|") text.replace(0, label.size(), label);
  return text;
}

}  // namespace

std::string draw_timeline(std::span<const Event> events, int stages, const TimelineOptions& options) {
  const std::int64_t margin = std::ssize(fmt::format("stage {}  ", stages - 1));
  const std::int64_t width = std::max<std::int64_t>(options.columns - margin, 1);
  std::vector<Line> lines;
  for (int r = 0; r < stages; ++r) {
    Line& line = lines.emplace_back(margin + width);
    line.put(0, fmt::format("stage {}", r));
    line.put(margin, std::string(static_cast<std::size_t>(width), '.'));
  }
  const auto column = [&](double time) {
    return std::clamp<std::int64_t>(std::llround(time / options.seconds * static_cast<double>(width)), 0,
                                    width);
  };
  for (const Event& event : events) {
    const bool steps = event.instruction.op == Op::Step;
    const std::string label = steps ? "|" : label_of(event.instruction);
    if (label.empty()) continue;
    const std::int64_t end = column(event.end);
    // An update's event begins with the wait for it; the mark is at its end.
    const std::int64_t begin = steps ? end - 1 : column(event.begin);
    if (begin < 0 || begin >= end || (steps && event.end > options.seconds)) continue;
    const schedule::Style style = {.color = event.instruction.version, .filled = !steps};
    lines[event.stage].put(margin + begin, cell(label, end - begin), style);
  }
  std::string text;
  for (const Line& line : lines) text += line.text(options.color);
  return text;
}

}  // namespace twobw::simulator
