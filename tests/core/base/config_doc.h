// docs/config.md, rendered from the table of keys.
#pragma once

#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "core/base/config_schema.h"

namespace twobw {

inline constexpr const char* kIntro = R"(# Configuration

A run is described by one YAML file, and any key may be set again on the command line:

    twobw train configs/default.yaml pipeline.stages=4 optimizer.betas=[0.9,0.95]

The file may be left out, as may any key: each has a default. Settings count in the order file, then
command line from left to right. A key that does not exist, a value of the wrong type and a value out of
range are refused with one sentence that says where it stands, and exit code 2.

`twobw verify` without a file has other defaults: {}, and `model.dropout={}` if the family has dropout. In fp32 it
computes on CPU cores unless `devices` names others, as do `eval` and `generate`.

This page is made from the table in `src/core/base/config_table.cc`; a test keeps the two alike.
)";

inline std::string row(const Key& key) {
  return fmt::format("| `{}` | `{}` | {} | {} |\n", name_of(key.path), key.write(Config{}), key.allowed,
                     key.meaning);
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
    out += "| key | default | allowed | meaning |\n|---|---|---|---|\n";
    for (const Key& key : schema()) {
      if (section_of(key.path) == section.name) out += row(key);
    }
  }
  return out;
}

}  // namespace twobw
