// A simulated run as rows of characters, one a stage, in plain ASCII:
//
//   stage 0  0-1-....0'--2-1'--3-2'--
//   stage 1  ..0-0'--1-1'--2-2'--3-3'
//
// 1 is a forward, 1' a backward, E an evaluation, | an update; a dot is idle. What is too short to have a
// column of its own is left out.
#pragma once

#include <span>
#include <string>

#include "core/schedule/event.h"

namespace twobw::simulator {

struct TimelineOptions {
  double seconds = 0;  // draw the first so many
  int columns = 100;   // of the whole line
  bool color = false;  // ANSI, one colour a weight version
};

std::string draw_timeline(std::span<const schedule::Event> events, int stages,
                          const TimelineOptions& options);

}  // namespace twobw::simulator
