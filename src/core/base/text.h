// Small helpers for text that people read: near misses of names, and sizes, counts and times.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace twobw {

// Insertions, deletions, replacements and swaps of neighbours that turn a into b.
int edit_distance(std::string_view a, std::string_view b);

// Whether b is so close to a that a may be a slip for it: about one edit in three letters.
bool is_near(std::string_view a, std::string_view b);

// The candidate closest to word, the first of equals; empty where none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// "512 B", "1.2 GiB".
std::string format_bytes(double bytes);

// "300.0 MiB", "1.25 GiB": what is missing of a device's memory.
std::string format_shortage(double bytes);

// "950", "10.7M", "1.3B".
std::string format_count(double count);

// "0.042s", "8.5s", "1m 23s", "2h 05m", "3d 04h".
std::string format_duration(double seconds);

}  // namespace twobw
