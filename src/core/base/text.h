// Text that people read and write: numbers; near misses of names; sizes, counts and times; tables.
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace twobw {

// The whole text as a number of type T: decimal, finite and within T's range; null for any other text.
template <typename T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if constexpr (std::floating_point<T>) {
    if (!std::isfinite(value)) return std::nullopt;
  }
  return value;
}

// Insertions, deletions, replacements and swaps of neighbors that turn a into b.
int edit_distance(std::string_view a, std::string_view b);

// Whether a may be a misspelling of b: at most about one edit in three letters.
bool is_near(std::string_view a, std::string_view b);

// The candidate closest to word, the first of equals; empty if no candidate is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// "512 B", "1.2 GiB".
std::string format_bytes(double bytes);

// "300.0 MiB", "1.25 GiB": memory that is missing on a device.
std::string format_shortage(double bytes);

// "950", "10.7M", "1.3B".
std::string format_count(double count);

// "0.042s", "8.5s", "1m 23s", "2h 05m", "3d 04h".
std::string format_duration(double seconds);

// A table whose columns are as wide as their widest entries.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> head) { add(std::move(head)); }

  void align_right(std::set<std::size_t> columns) { right_ = std::move(columns); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::set<std::size_t> right_;
};

}  // namespace twobw
