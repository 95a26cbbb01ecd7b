#include "engine/optim/shards.h"

#include <algorithm>

#include "engine/optim/kernels.h"
#include "engine/optim/whole.h"

namespace twobw::optim {
namespace {

// Where it may be cut, rising.
std::vector<std::int64_t> cuts_of(const OptimizerConfig& config, const weights::Layout& layout) {
  const WholeParameters whole(config, layout, at::kFloat);
  std::vector<std::int64_t> cuts;
  for (const weights::Parameter& parameter : layout.parameters()) {
    if (parameter.alias) continue;
    const std::int64_t piece = whole.has(parameter) ? parameter.count : norm_piece(parameter.count);
    for (std::int64_t at = 0; at < parameter.count; at += piece) cuts.push_back(parameter.offset + at);
  }
  cuts.push_back(layout.size());
  return cuts;
}

}  // namespace

std::vector<weights::Range> shards_of(const OptimizerConfig& config, const weights::Layout& layout,
                                      int replicas) {
  const std::vector<std::int64_t> cuts = cuts_of(config, layout);
  std::vector<weights::Range> shards;
  std::int64_t begin = 0;
  for (int replica = 0; replica < replicas; ++replica) {
    const std::int64_t wanted = layout.size() * (replica + 1) / replicas;
    auto end = std::ranges::lower_bound(cuts, wanted);
    if (end != cuts.begin() && wanted - *std::prev(end) < *end - wanted) --end;
    shards.push_back({.begin = begin, .count = *end - begin});
    begin = *end;
  }
  return shards;
}

}  // namespace twobw::optim
