#include <algorithm>
#include <limits>

#include "base/error.h"
#include "train/profiler.h"
#include "train/setup.h"

namespace twobw::train {

std::vector<int> balance(const std::vector<double>& costs, int stages) {
  const int layers = static_cast<int>(costs.size());
  TWOBW_ASSERT(stages >= 1 && stages <= layers, "{} stages for {} layers", stages, layers);
  std::vector<double> before(layers + 1, 0.0);
  for (int i = 0; i < layers; ++i) before[i + 1] = before[i] + costs[i];

  // worst[s][n]: the smallest possible largest part when the first n layers make s stages.
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector worst(stages + 1, std::vector(layers + 1, infinity));
  std::vector cut(stages + 1, std::vector(layers + 1, 0));
  worst[0][0] = 0.0;
  for (int s = 1; s <= stages; ++s) {
    for (int n = s; n <= layers; ++n) {
      for (int c = s - 1; c < n; ++c) {
        const double value = std::max(worst[s - 1][c], before[n] - before[c]);
        if (value < worst[s][n]) {
          worst[s][n] = value;
          cut[s][n] = c;
        }
      }
    }
  }
  std::vector<int> split(stages);
  for (int s = stages, n = layers; s >= 1; n = cut[s][n], --s) split[s - 1] = n - cut[s][n];
  return split;
}

namespace {

// Seconds that one update takes in each layer, alone on the first stage's device.
std::vector<double> time_layers(const Setup& setup) {
  // Past a few hundred tokens, time grows in proportion to them, alike in every layer.
  constexpr int kEnoughTokens = 512;
  const int enough = (kEnoughTokens + setup.config.model.context - 1) / setup.config.model.context;
  const bool on_gpu = setup.places.front().gpu.has_value();  // which is idle half the time with few tokens
  const int size =
      on_gpu ? setup.config.pipeline.microbatch : std::min(setup.config.pipeline.microbatch, enough);
  const double passes =
      static_cast<double>(setup.spec.microbatches) * setup.config.pipeline.microbatch / size;
  // The head is there once a round, and on a GPU its time depends on what the other slices do then.
  const int rounds = on_gpu ? 10 : 2;
  const ProfileRequest request{.sizes = {size}, .rounds = rounds, .recomputation = false, .link = false};
  const planner::Profile measured = profile(setup, profiled_among(setup.places), request);
  std::vector<double> seconds;
  for (const std::string& name : measured.layers) {
    const planner::LayerKind& kind = measured.kinds.at(name);
    const planner::KindTimes& times = kind.times.front();
    seconds.push_back((times.forward.median + times.backward.median) * passes +
                      measured.step_per_parameter.median * kind.parameters);
  }
  return seconds;
}

}  // namespace

void choose_split(Setup& setup) {
  if (!setup.split.empty()) return;
  const int layers = static_cast<int>(setup.model.size());
  if (setup.spec.stages == 1) {
    setup.split = {layers};
    return;
  }
  setup.layer_seconds = time_layers(setup);
  setup.split = balance(setup.layer_seconds, setup.spec.stages);
}

}  // namespace twobw::train
