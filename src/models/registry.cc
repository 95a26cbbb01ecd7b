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
