// Single values of the configuration, from and to YAML text, independent of the locale.
#pragma once

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <concepts>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/text.h"

namespace twobw {

// A scalar as T: a number, a boolean or a string.
template <typename T>
std::optional<T> parse_scalar(const YAML::Node& node) {
  if (!node.IsScalar()) return std::nullopt;
  if constexpr (std::same_as<T, std::string>) {
    return node.Scalar();
  } else if constexpr (std::same_as<T, bool>) {
    if (node.Scalar() != "true" && node.Scalar() != "false") return std::nullopt;
    return node.Scalar() == "true";
  } else {
    return parse_number<T>(node.Scalar());
  }
}

// Numbers in their shortest exact form; strings plain if that is unambiguous, else in double quotes.
std::string print_scalar(std::string_view text);
inline std::string print_scalar(const std::string& text) {
  return print_scalar(std::string_view(text));
}
template <typename T>
requires std::integral<T> || std::floating_point<T> std::string print_scalar(T value) {
  return fmt::format("{}", value);
}

// Any node on one short line, for messages.
std::string describe(const YAML::Node& node);

// A value for messages: numbers, lists and maps as they are, words in quotes.
std::string shown(const std::string& text);

// cpu:0, cpu:0-3, cpu:0,2 and combinations of these.
bool is_device(std::string_view text);

}  // namespace twobw
