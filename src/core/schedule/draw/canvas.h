// A line of text in which every character has a colour of its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace twobw::schedule {

// Colours go round: number n and n+6 look alike.
struct Style {
  std::int64_t color = -1;  // -1: none
  bool filled = false;      // behind the text, not of the text

  friend bool operator==(const Style&, const Style&) = default;
};

class Line {
 public:
  explicit Line(std::int64_t columns);

  // What lies outside the line is dropped.
  void put(std::int64_t column, std::string_view text, Style style = {});
  // Whether nothing is written in [begin, end), all of it inside the line.
  bool blank(std::int64_t begin, std::int64_t end) const;

  // Without blanks at the end, with '\n', and with ANSI colours if asked.
  std::string text(bool color) const;

 private:
  std::string characters_;
  std::vector<Style> styles_;
};

}  // namespace twobw::schedule
