// Models without forwards, for tests of weights, gradients and optimizers.
#pragma once

#include <utility>
#include <vector>

#include "planning/architecture/layer.h"

namespace twobw::weights {

inline architecture::Model toy_model(std::vector<std::vector<architecture::Parameter>> layers) {
  architecture::Model model;
  for (auto& parameters : layers) model.push_back({.kind = "toy", .parameters = std::move(parameters)});
  return model;
}

// Four layers: tokens and positions, two blocks, and a head that may be tied to the tokens. All sizes are
// odd.
inline architecture::Model toy_model(bool tied = true) {
  return toy_model({{{.name = "tokens", .shape = {7, 3}, .init_std = 0.02},
                     {.name = "positions", .shape = {5, 3}, .init_std = 0.02}},
                    {{.name = "one.weight", .shape = {3, 3}, .init_std = 0.02},
                     {.name = "one.bias", .shape = {3}, .decay = false}},
                    {{.name = "two.weight", .shape = {3, 3}, .init_std = 0.02},
                     {.name = "two.bias", .shape = {3}, .decay = false}},
                    {{.name = "gain", .shape = {3}, .init_mean = 1.0, .decay = false},
                     {.name = "head", .shape = {7, 3}, .init_std = 0.02, .tied_to = tied ? "tokens" : ""}}});
}

// Every way to cut `layers` layers into contiguous stages: lists of [first, last).
inline std::vector<std::vector<std::pair<int, int>>> all_splits(int layers) {
  std::vector<std::vector<std::pair<int, int>>> splits;
  for (int cuts = 0; cuts < 1 << (layers - 1); ++cuts) {
    auto& split = splits.emplace_back();
    int first = 0;
    for (int layer = 1; layer <= layers; ++layer) {
      if (layer < layers && !(cuts >> (layer - 1) & 1)) continue;
      split.emplace_back(first, layer);
      first = layer;
    }
  }
  return splits;
}

}  // namespace twobw::weights
