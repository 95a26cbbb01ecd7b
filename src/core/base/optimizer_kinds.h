// The optimizers, in one table: whoever must tell them apart asks here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace twobw {

enum class OptimizerRule { AdamW, Sgd, Lion, Lamb, Muon };

struct OptimizerKind {
  OptimizerRule rule;
  std::string_view name;
  int moments;  // buffers of state, as large as the weights
};

const std::vector<OptimizerKind>& optimizer_kinds();
std::vector<std::string> optimizer_names();
// Of a name that there is.
const OptimizerKind& optimizer_kind(std::string_view name);

}  // namespace twobw
