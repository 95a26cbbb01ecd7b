// Draws a simulated run in plain ASCII, one row of characters per stage:
//
//   stage 0  0-1-....0'--2-1'--3-2'--
//   stage 1  ..0-0'--1-1'--2-2'--3-3'
//
// 1 is a forward, 1' a backward, E an evaluation, | an update; a dot is idle. Events shorter than a column
// are omitted.
#pragma once

#include <span>
#include <string>

#include "core/schedule/instruction.h"

namespace twobw::simulator {

struct TimelineOptions {
  double seconds = 0;  // drawn, from the beginning
  int columns = 100;   // of the whole line
  bool color = false;  // ANSI, one color per weight version
};

std::string draw_timeline(std::span<const schedule::Event> events, int stages,
                          const TimelineOptions& options);

}  // namespace twobw::simulator
