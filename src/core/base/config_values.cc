#include "core/base/config_values.h"

#include <algorithm>
#include <utility>

namespace twobw {
namespace {

bool is_plain(std::string_view text) {
  auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '/';
  };
  auto inner = [&](char c) { return letter(c) || c == '.' || c == '-'; };
  if (text.empty() || text == "null" || text == "Null" || text == "NULL") return false;
  return (letter(text[0]) || text[0] == '.') && std::ranges::all_of(text, inner);
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\x{:02x}", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

// Appends a node on one line, up to `most` bytes. Depth and length are bounded, because an alias may put a
// node inside itself, and a few aliases can make a list of billions.
void append_line(const YAML::Node& node, int depth, std::size_t most, std::string& line) {
  if (node.IsScalar()) {
    line += node.Scalar();
    return;
  }
  if (!node.IsDefined() || node.IsNull()) {
    line += "null";
    return;
  }
  const bool list = node.IsSequence();
  line += list ? '[' : '{';
  if (depth == 0) line += "...";
  bool first = true;
  for (auto entry = node.begin(); depth > 0 && entry != node.end() && line.size() <= most; ++entry) {
    if (!std::exchange(first, false)) line += ", ";
    if (list) {
      append_line(*entry, depth - 1, most, line);
    } else {
      append_line(entry->first, depth - 1, most, line);
      line += ": ";
      append_line(entry->second, depth - 1, most, line);
    }
  }
  line += list ? ']' : '}';
}

// first or first-last, first not above last.
bool is_core_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = parse_number<unsigned>(text.substr(0, dash));
  if (dash == std::string_view::npos) return first.has_value();
  const auto last = parse_number<unsigned>(text.substr(dash + 1));
  return first && last && *first <= *last;
}

}  // namespace

std::string print_scalar(std::string_view text) {
  return is_plain(text) ? std::string(text) : quoted(text);
}

std::string describe(const YAML::Node& node) {
  constexpr std::size_t longest = 60;
  std::string text;
  append_line(node, 3, longest, text);
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  if (text.size() > longest) text = text.substr(0, longest - 3) + "...";
  return text;
}

std::string shown(const std::string& text) {
  if (parse_number<double>(text)) return text;
  if (!text.empty() && std::string_view("[{\"").find(text[0]) != std::string_view::npos) return text;
  return "'" + text + "'";
}

bool is_device(std::string_view text) {
  if (!text.starts_with("cpu:")) return false;
  text.remove_prefix(4);
  while (true) {
    const std::size_t comma = text.find(',');
    if (!is_core_range(text.substr(0, comma))) return false;
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace twobw
