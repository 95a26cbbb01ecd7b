#include "engine/weights/gradients.h"

#include "engine/device/memory.h"

namespace twobw::weights {

Gradients::Gradients(const Layout& layout, int count, const at::TensorOptions& options) {
  const device::PurposeScope purpose(Term::Gradients);
  for (int buffer = 0; buffer < count; ++buffer) {
    flats_.push_back(at::zeros({layout.gradient_size()}, options.dtype(at::kFloat)));
    auto& views = views_.emplace_back();
    for (const Parameter& parameter : layout.parameters()) {
      views.push_back(flats_.back()
                          .narrow(0, parameter.gradient_offset, parameter.count)
                          .view(parameter.spec.shape)
                          .variable_data());
    }
  }
}

void Gradients::attach(std::int64_t batch, std::span<const at::Tensor> parameters) const {
  const auto& views = views_[batch % flats_.size()];
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].mutable_grad() = views[i];
}

}  // namespace twobw::weights
