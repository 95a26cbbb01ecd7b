#include "engine/runtime/restored.h"

#include <ATen/core/grad_mode.h>

#include "core/base/error.h"

namespace twobw::runtime {

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
