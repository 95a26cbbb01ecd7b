// What the output goes to.
#pragma once

#include <cstdint>
#include <string>

namespace twobw::cli {

// 0 where the output is no terminal.
std::int64_t terminal_columns();

// `choice` is "always", "never" or "auto": on a terminal, unless NO_COLOR is set.
bool wants_color(const std::string& choice);

}  // namespace twobw::cli
