// docs/reference/configuration.md, rendered from the table of keys.
#pragma once

#include <fmt/ranges.h>

#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "core/base/config_schema.h"

namespace twobw {

inline constexpr const char* kIntro = R"(# Configuration

A run is described by one YAML file. Any key can be set again on the command line, in order from left to right:

    twobw train configs/default.yaml pipeline.stages=4 optimizer.betas=[0.9,0.95]

The file may be left out. An unknown key or a wrong value is refused with exit code 2 and one sentence that names its
place.

`twobw verify` without a file has other defaults: {}, and `model.dropout={}` if the family has dropout. In fp32
`verify`, `eval` and `generate` compute on CPU cores unless `devices` is set.

Behind a key are its default and the allowed values, unless these are any text, or true and false. `1..32` is a range of
whole numbers. A test keeps this page equal to `src/core/base/config_table.cc`.
)";

// Shorter than in the sentence that refuses a value: "1..10000". Empty for text and switches.
inline std::string brief(std::string allowed) {
  static const std::vector<std::pair<std::regex, const char*>> shorter = {
      {std::regex("^a whole number of at least (.*) and at most (.*)"), "$1..$2"},
      {std::regex("^a number (of |from )?"), ""},
      {std::regex("^one of "), ""},
      {std::regex("^(true or false|text, not empty)$"), ""},
      {std::regex("^a path, or a list such as"), "text or"},
  };
  for (const auto& [pattern, by] : shorter) allowed = std::regex_replace(allowed, pattern, by);
  return allowed;
}

// A page that a meaning names becomes a link.
inline std::string linked(const std::string& meaning) {
  static const std::regex page("docs/([a-z-]+)/([a-z-]+)\\.md");
  return std::regex_replace(meaning, page, "[$2](../$1/$2.md)");
}

inline std::string item(const Key& key) {
  const std::string allowed = brief(key.allowed);
  return fmt::format("- `{}` (`{}`{}{}): {}\n", name_of(key.path), key.write(Config{}),
                     allowed.empty() ? "" : "; ", allowed, linked(key.meaning));
}

// The whole page, in Markdown.
inline std::string render_config_doc() {
  std::vector<std::string> small;
  for (const char* setting : kVerifyDefaults) small.push_back(fmt::format("`{}`", setting));
  std::string out = fmt::format(kIntro, fmt::join(small, ", "), kVerifyDropout);
  for (const Section& section : sections()) {
    const std::string title =
        section.name.empty() ? "Outside the sections" : fmt::format("`{}`", section.name);
    out += fmt::format("\n## {}\n\n{}\n\n", title, section.meaning);
    for (const Key& key : schema()) {
      if (section_of(key.path) == section.name) out += item(key);
    }
  }
  return out;
}

}  // namespace twobw
