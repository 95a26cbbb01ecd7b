// The kinds of configuration keys: each function makes a row of the table. `access` is a generic lambda from
// Config& or const Config& to a reference to the field.
#pragma once

#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/config_schema.h"
#include "core/base/config_values.h"

namespace twobw {

// Corpora from and to YAML: a path, or [{path: a, weight: 0.7}, {path: b, weight: 0.3}].
inline constexpr const char* kCorporaAllowed =
    "a path, or a list such as [{path: a, weight: 0.7}, {path: b, weight: 0.3}]";

Complaint read_corpora(const YAML::Node& node, Corpora& corpora);
std::string print_corpora(const Corpora& corpora);
Complaint check_corpora(const Corpora& corpora);

template <typename Access>
using FieldOf = std::remove_cvref_t<std::invoke_result_t<Access, Config&>>;

struct Range {
  std::string words;
  std::function<bool(double)> holds;
};

inline Range at_least(double low) {
  return {fmt::format("a number of at least {}", low), [=](double value) { return value >= low; }};
}
inline Range above(double low) {
  return {fmt::format("a number above {}", low), [=](double value) { return value > low; }};
}
// A timeout, far below the range of clocks.
inline Range some_seconds() {
  return {"a number above 0 and at most 1000000", [](double value) { return value > 0 && value <= 1e6; }};
}
inline Range below_one() {
  return {"a number of at least 0 and below 1", [](double value) { return value >= 0 && value < 1; }};
}
inline Range part_of_one() {
  return {"a number above 0 and up to 1", [](double value) { return value > 0 && value <= 1; }};
}
inline Range up_to_one() {
  return {"a number from 0 to 1", [](double value) { return value >= 0 && value <= 1; }};
}

// A scalar key; `holds` returns whether a value is in range.
template <typename Access, typename Holds>
Key scalar(std::string path, Access access, std::string allowed, Holds holds, std::string meaning) {
  const std::string must = "be " + allowed;
  auto read = [=](const YAML::Node& node, Config& config) -> Complaint {
    const auto value = parse_scalar<FieldOf<Access>>(node);
    if (!value) return must;
    access(config) = *value;
    return {};
  };
  auto write = [=](const Config& config) { return print_scalar(access(config)); };
  auto check = [=](const Config& config) { return holds(access(config)) ? Complaint{} : must; };
  return {std::move(path), std::move(allowed), std::move(meaning), read, write, check};
}

template <typename Access>
Key whole(std::string path, Access access, FieldOf<Access> low, FieldOf<Access> most, std::string meaning) {
  auto holds = [=](auto value) { return value >= low && value <= most; };
  return scalar(std::move(path), access,
                fmt::format("a whole number of at least {} and at most {}", low, most), holds,
                std::move(meaning));
}

template <typename Access>
Key real(std::string path, Access access, Range range, std::string meaning) {
  auto holds = [=](double value) { return std::isfinite(value) && range.holds(value); };
  return scalar(std::move(path), access, range.words, holds, std::move(meaning));
}

template <typename Access>
Key words(std::string path, Access access, std::string meaning) {
  auto holds = [](const std::string& value) { return !value.empty(); };
  return scalar(std::move(path), access, "text, not empty", holds, std::move(meaning));
}

template <typename Access>
Key choice(std::string path, Access access, std::vector<std::string> choices, std::string meaning) {
  auto holds = [=](const std::string& value) {
    return std::find(choices.begin(), choices.end(), value) != choices.end();
  };
  return scalar(std::move(path), access, fmt::format("one of {}", fmt::join(choices, ", ")), holds,
                std::move(meaning));
}

// A choice whose values are an enumeration's, each with a name().
template <typename Access>
Key enumerated(std::string path, Access access, std::vector<FieldOf<Access>> values, std::string meaning) {
  std::vector<std::string> names;
  for (const auto value : values) names.emplace_back(name(value));
  const std::string allowed = fmt::format("one of {}", fmt::join(names, ", "));
  auto read = [=, must = "be " + allowed](const YAML::Node& node, Config& config) -> Complaint {
    const auto text = parse_scalar<std::string>(node);
    const auto found = text ? std::find(names.begin(), names.end(), *text) : names.end();
    if (found == names.end()) return must;
    access(config) = values[static_cast<std::size_t>(found - names.begin())];
    return {};
  };
  auto write = [=](const Config& config) { return std::string(name(access(config))); };
  auto check = [](const Config&) { return Complaint{}; };
  return {std::move(path), allowed, std::move(meaning), read, write, check};
}

template <typename Access>
Key boolean(std::string path, Access access, std::string meaning) {
  return scalar(
      std::move(path), access, "true or false", [](bool) { return true; }, std::move(meaning));
}

template <typename T>
std::optional<std::vector<T>> parse_list(const YAML::Node& node) {
  if (!node.IsSequence() || node.size() == 0) return std::nullopt;
  std::vector<T> values;
  for (const YAML::Node& entry : node) {
    const auto value = parse_scalar<T>(entry);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

template <typename T>
std::string print_list(const std::vector<T>& values) {
  std::vector<std::string> parts;
  for (const T& value : values) parts.push_back(print_scalar(value));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

// A list, or one of a few names that stand for a list.
template <typename Access>
Key list(std::string path, Access access, std::vector<std::pair<std::string, FieldOf<Access>>> names,
         std::string allowed, std::string meaning) {
  auto read = [=, must = "be " + allowed](const YAML::Node& node, Config& config) -> Complaint {
    auto values = parse_list<typename FieldOf<Access>::value_type>(node);
    for (const auto& [name, meant] : names) {
      if (node.IsScalar() && node.Scalar() == name) values = meant;
    }
    if (!values) return must;
    access(config) = *values;
    return {};
  };
  auto write = [=](const Config& config) {
    for (const auto& [name, meant] : names) {
      if (access(config) == meant) return name;
    }
    return print_list(access(config));
  };
  auto check = [](const Config&) { return Complaint{}; };
  return {std::move(path), std::move(allowed), std::move(meaning), read, write, check};
}

// A corpus, or several with their weights.
template <typename Access>
Key corpora(std::string path, Access access, std::string meaning) {
  auto read = [=](const YAML::Node& node, Config& config) { return read_corpora(node, access(config)); };
  auto write = [=](const Config& config) { return print_corpora(access(config)); };
  auto check = [=](const Config& config) { return check_corpora(access(config)); };
  return {std::move(path), kCorporaAllowed, std::move(meaning), read, write, check};
}

}  // namespace twobw
