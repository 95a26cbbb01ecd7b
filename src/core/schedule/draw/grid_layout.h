// Where the grid puts things: the cells of every stage in ticks, and ticks in columns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/schedule/execution.h"

namespace twobw::schedule {

// One computation.
struct Cell {
  Span span;
  std::string label;  // "3", "3'" or "E"
  std::int64_t version = 0;
  bool predicted = false;

  std::string weights() const;  // "2" of W(2), "~" of a prediction
};

// The updates between two cells: ">1", or ">1>2" where two come at once.
struct UpdateMark {
  std::int64_t tick = 0;
  std::int64_t version = 0;  // the newest written
  std::string text;
};

struct Row {
  std::vector<Cell> cells;
  std::vector<UpdateMark> marks;
};

struct GridLayout {
  static constexpr std::int64_t margin = 9;  // "stage 0  "

  std::vector<Row> rows;   // by stage
  std::int64_t ticks = 0;  // how many are drawn
  std::int64_t width = 0;  // columns a tick: every label fits its cell with a blank after it
  bool cut = false;        // more follows than is drawn

  std::int64_t column(std::int64_t tick) const { return margin + tick * width; }
};

// Of the first so many ticks; 0: of all.
GridLayout lay_out(const Lists& lists, const Execution& execution, std::int64_t ticks);

}  // namespace twobw::schedule
