// Sizes, rates and times as people write them: 24GiB, 25Gbit/s, 5us. Plain numbers are bytes, bytes a
// second, seconds.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace twobw {

// Nothing: not a number, or of no known unit. A blank may stand before the unit.
std::optional<double> parse_bytes(std::string_view text);  // B, KB, KiB, MB, ... TiB
std::optional<double> parse_rate(
    std::string_view text);  // the same followed by /s; bit/s, Kbit/s, ... Tbit/s
std::optional<double> parse_seconds(std::string_view text);  // s, ms, us, ns

// In few digits, and reads back to the same value.
std::string print_bytes(double bytes);
std::string print_rate(double bytes_per_second);
std::string print_seconds(double seconds);

}  // namespace twobw
