// Arguments of commands that take a configuration: [CONFIG.yaml] [key.path=value ...].
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/base/json.h"

namespace twobw::cli {

struct RunArguments {
  // As typed. A word with '=' is an override, unless it names a file.
  std::string file;
  std::vector<std::string> overrides;

  // Settings that replace the usual defaults; keys may still be derived from others.
  std::vector<std::string> defaults;

  // Whether an override sets the key.
  bool sets(const char* key) const { return is_set(key, "", overrides); }
};

// Parsing throws InputError when two files are named.
std::shared_ptr<RunArguments> add_run_arguments(CLI::App& command);

// Loads the configuration, with the model keys of the folder in model.from.
Config load(const RunArguments& arguments);

// Loads it with plan=auto: `devices` are the devices to plan for, with any number of stages.
Config load_to_plan(RunArguments arguments);

// Every key of a configuration, by section.
Json to_json(const Config& config);

}  // namespace twobw::cli
