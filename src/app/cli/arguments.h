// The arguments that train, verify and the like share: [CONFIG.yaml] [key.path=value ...].
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "core/base/config.h"

namespace twobw::cli {

struct RunArguments {
  std::vector<std::string> words;  // as typed

  // Sorted out when the command runs: the one word without '=', or that names a file, is the file.
  std::string file;
  std::vector<std::string> overrides;

  // Settings of the command in the place of the defaults: keys that follow from others still do.
  std::vector<std::string> defaults;

  // Whether an override sets the key.
  bool sets(const char* key) const { return is_set(key, "", overrides); }
};

std::shared_ptr<RunArguments> add_run_arguments(CLI::App& command);

// Throws InputError when two files are named.
void sort_out(RunArguments& arguments);

// The configuration that they describe, with the keys of the model that model.from names.
Config load(const RunArguments& arguments);

// The same with `devices` as those to plan for, however many stages it has.
Config load_to_plan(RunArguments arguments);

}  // namespace twobw::cli
