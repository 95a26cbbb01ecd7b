// twobw config: prints a configuration with all defaults.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "app/cli/arguments.h"
#include "app/cli/json_output.h"
#include "app/cli/program.h"
#include "core/base/config_schema.h"
#include "core/base/config_values.h"
#include "core/base/text_file.h"

namespace twobw::cli {
namespace {

// A plain scalar is a number or a flag if it reads as one, unless the key takes text.
Json value_of(const YAML::Node& node, bool is_text) {
  if (node.IsNull()) return nullptr;
  if (node.IsSequence()) {
    Json list = Json::array();
    for (const YAML::Node& item : node) list.push_back(value_of(item, is_text));
    return list;
  }
  if (node.IsMap()) {
    Json map = Json::object();
    for (const auto& entry : node) map[entry.first.Scalar()] = value_of(entry.second, is_text);
    return map;
  }
  const std::string& text = node.Scalar();
  const bool is_quoted = node.Tag() == "!";
  if (is_quoted || is_text) return text;
  if (text == "true" || text == "false") return text == "true";
  if (const auto whole = parse_number<std::int64_t>(text)) return *whole;
  if (const auto whole = parse_number<std::uint64_t>(text)) return *whole;
  if (const auto number = parse_number<double>(text)) return *number;
  return text;
}

}  // namespace

Json to_json(const Config& config) {
  Json json = Json::object();
  for (const Key& key : schema()) {
    const YAML::Node value = parse_yaml(key.write(config), key.path, /*with_line=*/false);
    const std::string section = section_of(key.path);
    Json& place = section.empty() ? json : json[section];
    place[name_of(key.path)] = value_of(value, key.allowed.starts_with("text"));
  }
  return json;
}

void add_config(CLI::App& command, int& exit_code) {
  auto arguments = add_run_arguments(command);
  auto json = std::make_shared<bool>(false);
  add_json_flag(command, *json);
  command.callback([arguments, json, &exit_code] {
    sort_out(*arguments);
    const Config config = load(*arguments);
    print_result(*json, to_json(config), to_yaml(config));
    exit_code = 0;
  });
}

}  // namespace twobw::cli
