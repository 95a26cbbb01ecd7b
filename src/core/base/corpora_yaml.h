// Corpora from and to YAML: a path, or [{path: a, weight: 0.7}, {path: b, weight: 0.3}].
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>

#include "core/base/config_schema.h"
#include "core/base/corpora.h"

namespace twobw {

inline constexpr const char* kCorporaAllowed =
    "a path, or a list such as [{path: a, weight: 0.7}, {path: b, weight: 0.3}]";

Complaint read_corpora(const YAML::Node& node, Corpora& corpora);
std::string print_corpora(const Corpora& corpora);
Complaint check_corpora(const Corpora& corpora);

}  // namespace twobw
