#include "planning/architecture/huggingface/config_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text_file.h"

namespace twobw::architecture::huggingface {
namespace {

constexpr int kDeepestConfig = 32;

std::string read_config(const std::string& path) {
  return read_model_text("model configuration", path, kLargestConfig);
}

nlohmann::json parse_config(std::string_view text, const std::string& path) {
  UntrustedJson parsed = parse_untrusted(text, kDeepestConfig);
  if (!parsed.problem.empty()) fail_input("'{}' {}", path, parsed.problem);
  if (!parsed.value.is_object())
    fail_input("'{}' is not a JSON object; it must be a model's config.json", path);
  return std::move(parsed.value);
}

}  // namespace

ConfigFile::ConfigFile(const std::string& path) : ConfigFile(read_config(path), path) {}

ConfigFile::ConfigFile(std::string_view text, const std::string& path)
    : ConfigFile(parse_config(text, path), path, "") {}

ConfigFile::ConfigFile(nlohmann::json value, std::string path, std::string prefix)
    : value_(std::move(value)), path_(std::move(path)), prefix_(std::move(prefix)) {}

const nlohmann::json* ConfigFile::find(const std::string& key) const {
  const auto found = value_.find(key);
  return found == value_.end() || found->is_null() ? nullptr : &*found;
}

bool ConfigFile::is_null(const std::string& key) const {
  const auto found = value_.find(key);
  return found != value_.end() && found->is_null();
}

void ConfigFile::miss(const std::string& key) const {
  fail_input("'{}' lacks the key {}{}", path_, prefix_, key);
}

void ConfigFile::refuse(const std::string& key, std::string_view must) const {
  const nlohmann::json* value = find(key);
  fail_input("'{}' has {}{} = {}; it must {}", path_, prefix_, key,
             value == nullptr ? "null" : shown_name(value->dump()), must);
}

int ConfigFile::whole(const std::string& key, int most, std::optional<int> fallback) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) {
    if (!fallback) miss(key);
    return *fallback;
  }
  if (!value->is_number_unsigned() || value->get<std::uint64_t>() < 1 ||
      value->get<std::uint64_t>() > static_cast<std::uint64_t>(most))
    refuse(key, fmt::format("be a whole number from 1 to {}", most));
  return value->get<int>();
}

double ConfigFile::number(const std::string& key, std::optional<double> fallback) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) {
    if (!fallback) miss(key);
    return *fallback;
  }
  if (!value->is_number() || !std::isfinite(value->get<double>()) || value->get<double>() < 0)
    refuse(key, "be a number of at least 0");
  return value->get<double>();
}

bool ConfigFile::flag(const std::string& key, bool fallback) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) refuse(key, "be true or false");
  return value->get<bool>();
}

std::string ConfigFile::word(const std::string& key, const std::string& fallback) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_string()) refuse(key, "be text");
  return value->get<std::string>();
}

std::vector<std::string> ConfigFile::words(const std::string& key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return {};
  const auto is_text = [](const nlohmann::json& item) { return item.is_string(); };
  if (!value->is_array() || !std::all_of(value->begin(), value->end(), is_text))
    refuse(key, "be a list of words");
  return value->get<std::vector<std::string>>();
}

std::optional<ConfigFile> ConfigFile::part(const std::string& key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) refuse(key, "be an object");
  return ConfigFile(*value, path_, prefix_ + key + ".");
}

void ConfigFile::expect(const std::string& key, bool only) const {
  if (flag(key, only) != only) refuse(key, only ? "be true" : "be false");
}

void ConfigFile::expect(const std::string& key, double only) const {
  if (number(key, only) != only) refuse(key, fmt::format("be {}", only));
}

void ConfigFile::expect_word(const std::string& key, const std::vector<std::string>& allowed) const {
  const std::string given = word(key, allowed.front());
  if (std::ranges::find(allowed, given) != allowed.end()) return;
  refuse(key,
         allowed.size() == 1 ? "be " + allowed[0] : fmt::format("be one of {}", fmt::join(allowed, ", ")));
}

void ConfigFile::expect_divides(const std::string& key, int divisor, const std::string& multiple,
                                int size) const {
  if (size % divisor != 0) refuse(key, fmt::format("divide {}, which is {}", multiple, size));
}

void ConfigFile::expect_none(const std::string& key, std::string_view why) const {
  const nlohmann::json* value = find(key);
  if (value != nullptr && !value->empty()) refuse(key, fmt::format("be left out: {}", why));
}

}  // namespace twobw::architecture::huggingface
