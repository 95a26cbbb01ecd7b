#include "core/base/kinds.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"

namespace twobw {

std::string_view name(ModelHead head) {
  constexpr std::string_view kNames[] = {"auto", "causal_lm", "masked_lm", "classification", "regression"};
  return kNames[static_cast<std::size_t>(head)];
}

const std::vector<ModelHead>& all_heads() {
  static const std::vector<ModelHead> heads = {ModelHead::Auto, ModelHead::CausalLm, ModelHead::MaskedLm,
                                               ModelHead::Classification, ModelHead::Regression};
  return heads;
}

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

const std::vector<std::string>& precisions() {
  static const std::vector<std::string> all = {"fp32", "fp16", "bf16"};
  return all;
}

double bytes_per_element(const std::string& precision) {
  if (std::ranges::find(precisions(), precision) == precisions().end()) {
    fail_input("the precision is '{}'; allowed: {}", precision, fmt::join(precisions(), ", "));
  }
  return precision == "fp32" ? 4 : 2;
}

}  // namespace twobw
