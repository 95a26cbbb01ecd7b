// What families make their layers of.
#pragma once

#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/base/config.h"
#include "planning/architecture/layer.h"

namespace twobw::architecture {

inline constexpr double kStd = 0.02;  // of initial weights

// An embedding or a head.
inline Parameter matrix(std::string name, std::int64_t rows, std::int64_t columns) {
  return {.name = std::move(name), .shape = {rows, columns}, .init_std = kStd};
}

// One matrix or several, one below the other, between hidden activations.
inline Parameter hidden(std::string name, const std::vector<std::int64_t>& rows, std::int64_t columns,
                        double std = kStd) {
  return {.name = std::move(name),
          .shape = {std::accumulate(rows.begin(), rows.end(), std::int64_t{0}), columns},
          .init_std = std,
          .matrices = rows};
}

inline Parameter bias(std::string name, std::int64_t size) {
  return {.name = std::move(name), .shape = {size}, .decay = false};
}

inline Parameter gain(std::string name, std::int64_t size) {
  return {.name = std::move(name), .shape = {size}, .init_mean = 1.0, .decay = false};
}

// `work`: of one sequence, a function of what a family says of a model and an extent.
template <typename FamilyWork>
Layer layer(const ModelConfig& config, const std::string& kind, const std::vector<Parameter>& parameters,
            Work (FamilyWork::*work)() const, BatchFields takes = {}) {
  return {
      .kind = kind, .parameters = parameters, .takes = takes, .work = [config, work](const Extent& extent) {
        return (FamilyWork(config, extent).*work)().times(extent.sequences);
      }};
}

// The matrix that gives the logits of tokens.
inline Parameter language_output(const ModelConfig& config) {
  Parameter output = matrix("head.weight", config.vocab, config.width);
  if (config.tied) output.tied_to = "embedding.tokens";
  return output;
}

}  // namespace twobw::architecture
