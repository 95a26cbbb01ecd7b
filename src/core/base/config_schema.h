// The one table of configuration keys. Reading, checking, writing and documenting all walk it.
#pragma once

#include <yaml-cpp/yaml.h>

#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/config.h"

namespace twobw {

// What a value must be, as the end of "it must ..."; empty: nothing is wrong.
using Complaint = std::string;

struct Key {
  std::string path;     // pipeline.stages
  std::string allowed;  // the end of "it must be ..."
  std::string meaning;  // one sentence
  // Sets the value, whatever its range; complains of a wrong type.
  std::function<Complaint(const YAML::Node&, Config&)> read;
  std::function<std::string(const Config&)> write;  // as YAML, on one line
  // Complains of a value out of range. May rely on the keys above it in the table being sound.
  std::function<Complaint(const Config&)> check;

  // The same key, held to one more rule.
  Key with(std::function<Complaint(const Config&)> rule) &&;
};

// What pipeline.recompute: all reads as, until the number of stages is known.
inline constexpr int kEveryStage = std::numeric_limits<int>::min();

struct Section {
  std::string name;  // empty: the keys outside any section
  std::string meaning;
};

const std::vector<Key>& schema();
const std::vector<Section>& sections();

// The section of a path, "" where it has none, and what follows it.
std::string section_of(std::string_view path);
std::string name_of(std::string_view path);

const Key* find_key(std::string_view path);
bool is_section(std::string_view path);

// How to go on from an unknown key: "did you mean 'pipeline.stages'?", or the names there are.
std::string advice_for(std::string_view unknown);

}  // namespace twobw
