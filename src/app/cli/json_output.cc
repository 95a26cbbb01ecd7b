#include "app/cli/json_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/base/config_schema.h"
#include "core/base/config_values.h"
#include "core/base/output.h"

namespace twobw::cli {

void add_json_flag(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "Print JSON instead of text");
}

Json to_json(const YAML::Node& node, bool is_text) {
  if (node.IsNull()) return nullptr;
  if (node.IsSequence()) {
    Json list = Json::array();
    for (const YAML::Node& item : node) list.push_back(to_json(item, is_text));
    return list;
  }
  if (node.IsMap()) {
    Json map = Json::object();
    for (const auto& entry : node) map[entry.first.Scalar()] = to_json(entry.second, is_text);
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

void print_json(const Json& result) {
  fmt::print("{}", pretty(result));
}

void print_result(bool json, const Json& result, std::string_view text) {
  if (json) return print_json(result);
  fmt::print("{}", text);
}

bool asks_for_json(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc,
                     [](const char* text) { return std::string_view(text) == "--json"; });
}

std::string error_line(std::string_view sentence) {
  Json error = {{"message", sentence}, {"key", nullptr}, {"value", nullptr}, {"remedy", nullptr}};
  constexpr std::string_view kIs = " is ", kUnknown = "unknown key '";
  const std::size_t end = sentence.find("; "), word = sentence.find(' ');
  const std::string_view key = sentence.substr(0, word);
  if (sentence.starts_with(kUnknown)) {
    const std::string_view quoted = sentence.substr(kUnknown.size());
    error["key"] = quoted.substr(0, quoted.find('\''));
  } else if (find_key(key) || key.starts_with("--")) {
    error["key"] = key;
  }
  if (error["key"] == key && end != std::string_view::npos && sentence.substr(word).starts_with(kIs)) {
    std::string_view value = sentence.substr(word + kIs.size(), end - word - kIs.size());
    for (const std::string_view origin : {" in override '", " in '", " at "})
      value = value.substr(0, value.find(origin));
    if (value.size() > 1 && value.starts_with('\'') && value.ends_with('\''))
      value = value.substr(1, value.size() - 2);
    error["value"] = value;
  }
  if (end != std::string_view::npos) error["remedy"] = sentence.substr(end + 2);
  // Arguments are bytes, not always UTF-8.
  return Json{{"error", error}}.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

ProgressOnStderr::ProgressOnStderr(bool json) {
  if (!json) return;
  flush_output();
  output_ = dup(STDOUT_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
}

void ProgressOnStderr::print_line(const Json& line) const {
  const std::string text = line.dump() + "\n";
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = write(output_, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return note_output_failure(errno);
    done += static_cast<std::size_t>(written);
  }
}

ProgressOnStderr::~ProgressOnStderr() {
  if (output_ < 0) return;
  flush_output();
  dup2(output_, STDOUT_FILENO);
  close(output_);
}

}  // namespace twobw::cli
