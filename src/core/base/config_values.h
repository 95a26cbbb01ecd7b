// Single values of the configuration, from and to YAML text. Locale plays no part.
#pragma once

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <cmath>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>

namespace twobw {

// The whole text as a number of type T: decimal, finite and within T's range, or nothing.
template <typename T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if constexpr (std::floating_point<T>) {
    if (!std::isfinite(value)) return std::nullopt;
  }
  return value;
}

// A scalar as T: a number or a string.
template <typename T>
std::optional<T> parse_scalar(const YAML::Node& node) {
  if (!node.IsScalar()) return std::nullopt;
  if constexpr (std::same_as<T, std::string>) {
    return node.Scalar();
  } else {
    return parse_number<T>(node.Scalar());
  }
}

// Numbers in their shortest exact form; strings plain where that is safe, else in double quotes.
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

// A value as a message shows it: numbers, lists and maps as they are, words in quotes.
std::string shown(const std::string& text);

// cpu:0, cpu:0-3, cpu:0,2 and combinations of these.
bool is_device(std::string_view text);

}  // namespace twobw
