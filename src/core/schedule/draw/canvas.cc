#include "core/schedule/draw/canvas.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace twobw::schedule {
namespace {

// Cyan, yellow, green, magenta, blue, red: neighbors differ on light and on dark terminals.
constexpr std::array<int, 6> palette = {6, 3, 2, 5, 4, 1};

std::string escape(const Style& style) {
  if (style.color < 0) return "\x1b[0m";
  const int color = palette[static_cast<std::size_t>(style.color) % palette.size()];
  return style.filled ? fmt::format("\x1b[0;30;4{}m", color) : fmt::format("\x1b[0;1;3{}m", color);
}

}  // namespace

std::string label_of(const Instruction& instruction) {
  if (instruction.op == Op::Forward) return fmt::format("{}", instruction.microbatch);
  if (instruction.op == Op::Backward) return fmt::format("{}'", instruction.microbatch);
  return instruction.op == Op::Evaluate ? "E" : "";
}

Line::Line(std::int64_t columns)
    : characters_(static_cast<std::size_t>(columns), ' '), styles_(static_cast<std::size_t>(columns)) {}

void Line::put(std::int64_t column, std::string_view text, Style style) {
  for (char character : text) {
    if (column >= 0 && column < std::ssize(characters_)) {
      characters_[static_cast<std::size_t>(column)] = character;
      styles_[static_cast<std::size_t>(column)] = style;
    }
    ++column;
  }
}

bool Line::blank(std::int64_t begin, std::int64_t end) const {
  if (begin < 0 || end > std::ssize(characters_)) return false;
  return std::all_of(characters_.begin() + begin, characters_.begin() + end, [](char c) { return c == ' '; });
}

std::string Line::text(bool color) const {
  std::string result;
  Style current;
  const auto change = [&](const Style& style) {
    if (color && style != current) result += escape(style);
    current = style;
  };
  std::size_t end = characters_.size();
  while (end > 0 && characters_[end - 1] == ' ' && !(color && styles_[end - 1].filled)) --end;
  for (std::size_t i = 0; i < end; ++i) {
    change(styles_[i]);
    result += characters_[i];
  }
  change({});
  return result + '\n';
}

}  // namespace twobw::schedule
