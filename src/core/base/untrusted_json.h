// JSON of files that come from elsewhere: keys that are given twice and deep nesting are refused, so that
// what is read is what the file says and takes no more memory than a file of its size should.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace twobw {

struct UntrustedJson {
  nlohmann::json value;
  std::string problem;  // "is not JSON", "has 'layers' twice", "is nested too deep"; empty: none
};

// The problem that parse_untrusted would find; nothing is kept in memory for it.
std::string find_json_problem(std::string_view text, int deepest);

// At most `deepest` objects and lists inside each other.
UntrustedJson parse_untrusted(std::string_view text, int deepest);

// A name of such a file as a message shows it: on one line, and not too long.
std::string shown_name(std::string_view name);

}  // namespace twobw
