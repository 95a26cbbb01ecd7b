// twobw config: prints a configuration with all defaults.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "app/cli/arguments.h"
#include "app/cli/json_output.h"
#include "app/cli/program.h"
#include "core/base/config_schema.h"
#include "core/base/text_file.h"

namespace twobw::cli {

Json to_json(const Config& config) {
  Json json = Json::object();
  for (const Key& key : schema()) {
    const YAML::Node value = parse_yaml(key.write(config), key.path, /*with_line=*/false);
    const std::string section = section_of(key.path);
    Json& place = section.empty() ? json : json[section];
    place[name_of(key.path)] = to_json(value, key.allowed.starts_with("text"));
  }
  return json;
}

void add_config(CLI::App& command, int&) {
  auto arguments = add_run_arguments(command);
  auto json = std::make_shared<bool>(false);
  add_json_flag(command, *json);
  command.callback([arguments, json] {
    const Config config = load(*arguments);
    print_result(*json, to_json(config), to_yaml(config));
  });
}

}  // namespace twobw::cli
