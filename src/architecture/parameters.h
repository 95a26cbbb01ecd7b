// The parameters that families' layers are made of.
#pragma once

#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "architecture/layer.h"

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

}  // namespace twobw::architecture
