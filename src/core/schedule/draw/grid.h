// Draws the lists of a spec over time, in plain ASCII, with two lines per stage: the microbatches, and below
// each the t of the weights W(t) it runs on. Sequential, d=2, m=1, 2 updates:
//
//      tick  0         5         10
//   stage 0  0 . . . 0'-|1 . . . 1'-|
//         W  0       0>1|1       1>2|
//   stage 1  . 0 0'- . .|. 1 1'- . .|
//         W    0 0    >1|  1 1    >2|
//
// 1 is a forward, 1' a backward; >1| marks the update that writes W(1), ~1| the prediction of P(1); a dot is
// an idle tick.
#pragma once

#include <cstdint>
#include <string>

#include "core/schedule/execution.h"

namespace twobw::schedule {

struct GridOptions {
  Costs costs;             // the width of the cells, in ticks; each at least 1
  std::int64_t ticks = 0;  // drawn, from the beginning; 0: all
  bool color = false;      // ANSI, one color per version
};

// The grid alone. Lines end in '\n' and have no blanks at their end.
std::string draw_grid(const Lists& lists, const GridOptions& options = {});

// The most ticks whose grid fits into `columns`; at least 1.
std::int64_t ticks_that_fit(const Spec& spec, const GridOptions& options, std::int64_t columns);

// The grid, a legend and a summary. Long runs cost no more than the ticks drawn.
std::string draw(const Spec& spec, const GridOptions& options = {});

}  // namespace twobw::schedule
