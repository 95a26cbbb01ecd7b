// Models that are little but their parameters, for tests of what holds them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/layer.h"

namespace twobw::weights {

class ToyLayer : public models::Layer {
 public:
  explicit ToyLayer(std::vector<models::ParameterSpec> parameters) : parameters_(std::move(parameters)) {}
  std::string kind() const override { return "toy"; }
  std::vector<models::ParameterSpec> parameters() const override { return parameters_; }
  models::Tensors forward(std::span<const at::Tensor>, const models::Tensors& inputs,
                          const models::Pass&) const override {
    return inputs;
  }

 private:
  std::vector<models::ParameterSpec> parameters_;
};

inline models::LayerList toy_model(std::vector<std::vector<models::ParameterSpec>> layers) {
  models::LayerList model;
  for (auto& parameters : layers) model.push_back(std::make_unique<ToyLayer>(std::move(parameters)));
  return model;
}

// Four layers: tokens and positions, two blocks, and a head that may be tied to the tokens. The sizes
// are no multiples of anything.
inline models::LayerList toy_model(bool tied = true) {
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
