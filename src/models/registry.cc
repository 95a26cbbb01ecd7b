#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "models/model.h"

namespace twobw::models {

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {"gpt", build_gpt},
  };
  return all;
}

LayerList build(const ModelConfig& config) {
  std::string known;
  for (const Family& family : families()) {
    if (family.name == config.family) return family.build(config);
    known += (known.empty() ? "" : ", ") + family.name;
  }
  fail_input("model.family is '{}'; allowed: {}", config.family, known);
}

namespace {

// How often the `period` kinds that start at `begin` follow one another.
std::size_t repeats(const std::vector<std::string>& kinds, std::size_t begin, std::size_t period) {
  std::size_t end = begin + period;
  while (end < kinds.size() && kinds[end] == kinds[end - period]) ++end;
  return (end - begin) / period;
}

}  // namespace

std::string describe(const LayerList& layers) {
  std::vector<std::string> kinds, parts;
  for (const auto& layer : layers) kinds.push_back(layer->kind());
  for (std::size_t begin = 0; begin < kinds.size();) {
    std::size_t period = 1;
    while (period < 8 && begin + 2 * period < kinds.size() && repeats(kinds, begin, period) < 2) ++period;
    const std::size_t count = repeats(kinds, begin, period);
    if (count < 2) {
      parts.push_back(kinds[begin++]);
      continue;
    }
    const std::vector<std::string> block(kinds.begin() + begin, kinds.begin() + begin + period);
    parts.push_back(fmt::format("{} x ({})", count, fmt::join(block, ", ")));
    begin += count * period;
  }
  return fmt::format("{} layers: {}", kinds.size(), fmt::join(parts, ", "));
}

std::int64_t parameter_count(const LayerList& layers) {
  std::int64_t count = 0;
  for (const auto& layer : layers) {
    for (const ParameterSpec& parameter : layer->parameters()) {
      if (!parameter.tied_to.empty()) continue;
      std::int64_t size = 1;
      for (std::int64_t extent : parameter.shape) size *= extent;
      count += size;
    }
  }
  return count;
}

}  // namespace twobw::models
