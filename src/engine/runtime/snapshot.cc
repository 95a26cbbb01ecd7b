#include "engine/runtime/snapshot.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <tuple>

#include "core/base/error.h"

namespace twobw::runtime {
namespace {

void add_part(Snapshot& whole, const Snapshot& part) {
  for (std::size_t i = 0; i < whole.buffers.size(); ++i) {
    TWOBW_ASSERT(whole.buffers[i].first == part.buffers[i].first, "a part has {} where another has {}",
                 part.buffers[i].first, whole.buffers[i].first);
    part.part.of(whole.buffers[i].second).copy_(part.buffers[i].second);
  }
  whole.part.count += part.part.count;
}

Snapshot with_room(const Snapshot& part) {
  Snapshot whole = part;
  whole.part = {};
  for (auto& [name, flat] : whole.buffers) flat = at::zeros({part.layout.size()}, flat.options());
  return whole;
}

}  // namespace

std::vector<Snapshot> of_whole_stages(std::vector<Snapshot> parts) {
  std::ranges::sort(parts, {}, [](const Snapshot& one) { return std::tuple(one.stage, one.part.begin); });
  std::vector<Snapshot> stages;
  for (Snapshot& part : parts) {
    const bool begins = stages.empty() || stages.back().stage != part.stage;
    if (begins && part.part.count == part.layout.size()) {
      stages.push_back(std::move(part));
      continue;
    }
    if (begins) stages.push_back(with_room(part));
    add_part(stages.back(), part);
  }
  for (const Snapshot& stage : stages) {
    TWOBW_ASSERT(stage.part.count == stage.layout.size(), "{} of {} weights of stage {}", stage.part.count,
                 stage.layout.size(), stage.stage);
  }
  return stages;
}

at::Tensor Restored::flat(const std::string& buffer, const weights::Layout& layout) const {
  const auto found = buffers.find(buffer);
  TWOBW_ASSERT(found != buffers.end(), "a checkpoint without {}", buffer);
  const ByName& tensors = found->second;
  at::NoGradGuard no_grad;
  const at::Tensor flat = at::zeros({layout.size()}, at::kFloat);
  for (const weights::Parameter& parameter : layout.parameters()) {
    if (parameter.alias) continue;
    auto tensor = tensors.find(parameter.spec.name);
    if (tensor == tensors.end()) tensor = tensors.find(parameter.spec.tied_to);
    TWOBW_ASSERT(tensor != tensors.end(), "a checkpoint without {} of {}", buffer, parameter.spec.name);
    flat.narrow(0, parameter.offset, parameter.count).copy_(tensor->second.reshape({-1}));
  }
  return flat;
}

}  // namespace twobw::runtime
