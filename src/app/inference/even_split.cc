#include "app/inference/even_split.h"

#include <algorithm>
#include <limits>

#include "core/base/error.h"

namespace twobw::inference {

std::vector<int> even_split(const architecture::Model& model, int stages) {
  const int layers = static_cast<int>(model.size());
  TWOBW_ASSERT(stages >= 1 && stages <= layers, "{} stages of {} layers", stages, layers);
  std::vector<double> before(layers + 1, 0);  // parameters of the layers before one
  for (int i = 0; i < layers; ++i) before[i + 1] = before[i] + architecture::parameter_count(model[i]);
  // largest[s][n]: of the first n layers on s stages; begin[s][n]: where the last of these begins.
  constexpr double kNone = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> largest(stages + 1, std::vector<double>(layers + 1, kNone));
  std::vector<std::vector<int>> begin(stages + 1, std::vector<int>(layers + 1, 0));
  largest[0][0] = 0;
  for (int s = 1; s <= stages; ++s) {
    for (int n = s; n <= layers; ++n) {
      for (int first = s - 1; first < n; ++first) {
        const double most = std::max(largest[s - 1][first], before[n] - before[first]);
        if (most >= largest[s][n]) continue;
        largest[s][n] = most;
        begin[s][n] = first;
      }
    }
  }
  std::vector<int> split(stages);
  for (int s = stages, end = layers; s >= 1; end = begin[s--][end]) split[s - 1] = end - begin[s][end];
  return split;
}

}  // namespace twobw::inference
