#include "core/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>

namespace twobw {

int edit_distance(std::string_view a, std::string_view b) {
  const std::size_t columns = b.size() + 1;
  std::vector<int> table((a.size() + 1) * columns);
  auto at = [&](std::size_t i, std::size_t j) -> int& { return table[i * columns + j]; };
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        at(i, j) = static_cast<int>(i + j);
        continue;
      }
      const int replaced = at(i - 1, j - 1) + (a[i - 1] != b[j - 1]);
      at(i, j) = std::min({replaced, at(i - 1, j) + 1, at(i, j - 1) + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
    }
  }
  return table.back();
}

bool is_near(std::string_view a, std::string_view b) {
  return edit_distance(a, b) <= static_cast<int>(a.size() + 2) / 3;
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  auto distance = [&](const std::string& candidate) { return edit_distance(word, candidate); };
  const auto best = std::ranges::min_element(candidates, {}, distance);
  return best != candidates.end() && is_near(word, *best) ? *best : "";
}

namespace {

// One decimal, in the first unit in which the figure stays below `base` once rounded.
std::string scaled(double value, double base, std::initializer_list<const char*> units) {
  const char* const* unit = units.begin();
  while (unit + 1 != units.end() && std::round(std::abs(value) * 10) / 10 >= base) {
    value /= base;
    ++unit;
  }
  if (unit == units.begin()) return fmt::format("{:.0f}{}", value, *unit);
  return fmt::format("{:.1f}{}", value, *unit);
}

}  // namespace

std::string format_bytes(double bytes) {
  return scaled(bytes, 1024, {" B", " KiB", " MiB", " GiB", " TiB", " PiB"});
}

std::string format_shortage(double bytes) {
  constexpr double mib = 1 << 20, gib = 1 << 30;
  return bytes < gib ? fmt::format("{:.1f} MiB", bytes / mib) : fmt::format("{:.2f} GiB", bytes / gib);
}

std::string format_count(double count) {
  return scaled(count, 1000, {"", "K", "M", "B", "T"});
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || std::abs(seconds) > 1e15) return "?";
  if (seconds < 0.9995) return fmt::format("{:.3f}s", seconds);
  if (seconds < 9.95) return fmt::format("{:.1f}s", seconds);
  const std::int64_t whole = std::llround(seconds);
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m {:02}s", whole / 60, whole % 60);
  const std::int64_t minutes = whole / 60;
  if (minutes < 24 * 60) return fmt::format("{}h {:02}m", minutes / 60, minutes % 60);
  return fmt::format("{}d {:02}h", minutes / 60 / 24, minutes / 60 % 24);
}

std::string TextTable::text() const {
  std::vector<std::size_t> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += right_.contains(i) ? fmt::format("{:>{}}  ", row[i], widths[i])
                                 : fmt::format("{:<{}}  ", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace twobw
