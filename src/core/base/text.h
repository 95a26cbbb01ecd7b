// Text that people read: near misses of names; sizes, counts and times; tables.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace twobw {

// Insertions, deletions, replacements and swaps of neighbours that turn a into b.
int edit_distance(std::string_view a, std::string_view b);

// Whether b is so close to a that a may be a slip for it: about one edit in three letters.
bool is_near(std::string_view a, std::string_view b);

// The candidate closest to word, the first of equals; empty if none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// "512 B", "1.2 GiB".
std::string format_bytes(double bytes);

// "300.0 MiB", "1.25 GiB": memory that a device lacks.
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
