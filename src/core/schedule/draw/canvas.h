// A line of text with a color for every character.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/schedule/instruction.h"

namespace twobw::schedule {

// Colors repeat: n and n+6 are the same.
struct Style {
  std::int64_t color = -1;  // -1: none
  bool filled = false;      // colors the background instead of the text

  friend bool operator==(const Style&, const Style&) = default;
};

// Label of a computation: "3" of a forward, "3'" of a backward, "E" of an evaluation; empty for other
// instructions.
std::string label_of(const Instruction& instruction);

class Line {
 public:
  explicit Line(std::int64_t columns);

  // Clips the text to the line.
  void put(std::int64_t column, std::string_view text, Style style = {});
  // True if [begin, end) is inside the line and nothing is written there.
  bool blank(std::int64_t begin, std::int64_t end) const;

  // Without trailing blanks, with '\n'; `color`: with ANSI colors.
  std::string text(bool color) const;

 private:
  std::string characters_;
  std::vector<Style> styles_;
};

}  // namespace twobw::schedule
