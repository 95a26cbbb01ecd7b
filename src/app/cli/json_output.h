// --json: a command prints its result as one JSON document, and refuses input with another.
#pragma once

#include <yaml-cpp/yaml.h>

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "core/base/json.h"

namespace twobw::cli {

// Adds --json to a command that prints results. `json` outlives the command.
void add_json_flag(CLI::App& command, bool& json);

// A plain scalar is a number or a flag if it reads as one, unless the key takes text.
Json to_json(const YAML::Node& node, bool is_text = false);

// Prints the result, indented. Values that are not finite become null.
void print_json(const Json& result);

// Prints the result as JSON or as text.
void print_result(bool json, const Json& result, std::string_view text);

// Whether --json is among the arguments. Also right if they do not parse.
bool asks_for_json(int argc, char** argv);

// {"error": {"message", "key", "value", "remedy"}} on one line, for the sentence of a failure: "KEY ...",
// "KEY is VALUE; REMEDY" or "unknown key 'KEY' ...", where KEY is a configuration key or an option. Null if
// missing.
std::string error_line(std::string_view sentence);

// While it exists and `json` is set, standard output is standard error: progress goes there, so that the
// result is all that a program reads.
class ProgressOnStderr {
 public:
  explicit ProgressOnStderr(bool json);
  ~ProgressOnStderr();
  // Prints a line of JSON on standard output meanwhile. Only if `json` is set.
  void print_line(const Json& line) const;

  ProgressOnStderr(const ProgressOnStderr&) = delete;
  ProgressOnStderr& operator=(const ProgressOnStderr&) = delete;

 private:
  int output_ = -1;  // the descriptor of standard output
};

}  // namespace twobw::cli
