#include "optim/state.h"

#include "base/optimizer_kinds.h"
#include "device/memory.h"

namespace twobw::optim {

std::vector<std::pair<std::string, at::Tensor>> State::named() const {
  std::vector<std::pair<std::string, at::Tensor>> all = {{"master", master},   {"moment1", moment1},
                                                         {"moment2", moment2}, {"update1", update1},
                                                         {"update2", update2}, {"applied1", applied1}};
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
  const std::size_t updates = config.extrapolate_update.size(), weights = config.extrapolate_weights.size();
  State state{.moment1 = zeros(true),
              .moment2 = zeros(optimizer_kind(config.name).moments > 1),
              .update1 = zeros(updates > 0),
              .update2 = zeros(updates > 1),
              .applied1 = zeros(weights > 1)};
  if (keeps_master || weights > 0) {
    const device::PurposeScope of_master(Term::Master);
    state.master = initial.to(options.dtype(at::kFloat), /*non_blocking=*/false, /*copy=*/true);
  }
  return state;
}

}  // namespace twobw::optim
