#include "core/base/optimizer_kinds.h"

#include <algorithm>

#include "core/base/error.h"

namespace twobw {

const std::vector<OptimizerKind>& optimizer_kinds() {
  static const std::vector<OptimizerKind> kinds = {{OptimizerRule::AdamW, "adamw", 2},
                                                   {OptimizerRule::Sgd, "sgd", 1},
                                                   {OptimizerRule::Lion, "lion", 1},
                                                   {OptimizerRule::Lamb, "lamb", 2},
                                                   {OptimizerRule::Muon, "muon", 2}};
  return kinds;
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerKind& kind : optimizer_kinds()) names.emplace_back(kind.name);
  return names;
}

const OptimizerKind& optimizer_kind(std::string_view name) {
  const auto found = std::ranges::find(optimizer_kinds(), name, &OptimizerKind::name);
  TWOBW_ASSERT(found != optimizer_kinds().end(), "no optimizer '{}'", name);
  return *found;
}

}  // namespace twobw
