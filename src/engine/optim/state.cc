#include "engine/optim/state.h"

#include <algorithm>

#include "core/base/kinds.h"
#include "engine/device/memory.h"
#include "engine/optim/kernels.h"
#include "engine/optim/tensorwise.h"

namespace twobw::optim {

std::vector<std::pair<std::string, at::Tensor>> State::named() const {
  std::vector<std::pair<std::string, at::Tensor>> all = {
      {"master", master}, {"moment1", moment1}, {"moment2", moment2}};
  std::erase_if(all, [](const auto& buffer) { return !buffer.second.defined(); });
  return all;
}

std::int64_t State::bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : named()) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

State make_state(const OptimizerConfig& config, const at::Tensor& initial, const at::TensorOptions& options,
                 bool keeps_master) {
  const device::PurposeScope purpose(Term::Optimizer);
  const auto zeros = [&](bool wanted) {
    return wanted ? at::zeros({initial.numel()}, options.dtype(at::kFloat)) : at::Tensor();
  };
  State state{.moment1 = zeros(true), .moment2 = zeros(optimizer_kind(config.name).moments > 1)};
  if (keeps_master) {
    const device::PurposeScope of_master(Term::Master);
    state.master = initial.to(options.dtype(at::kFloat), /*non_blocking=*/false, /*copy=*/true);
  }
  return state;
}

float first_scale(const OptimizerConfig& config) {
  return config.clip > 0 ? 0.0f : 1.0f;
}

float* data_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr<float>() : nullptr;
}

namespace {

// Allowed boundaries of shards, ascending.
std::vector<std::int64_t> cuts_of(const OptimizerConfig& config, const weights::Layout& layout) {
  std::vector<std::int64_t> cuts;
  for (const weights::Parameter& parameter : layout.parameters()) {
    if (parameter.alias) continue;
    const std::int64_t piece =
        is_tensorwise(config, parameter) ? parameter.count : norm_piece(parameter.count);
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
