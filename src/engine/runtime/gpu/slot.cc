#include "engine/runtime/gpu/slot.h"

#include <ATen/core/grad_mode.h>

#include "engine/runtime/backward.h"

namespace twobw::runtime::gpu {
namespace {

using at::Tensor;
using models::Tensors;

}  // namespace

Slot::Slot(const models::Model& model, const StageSetup& setup, const models::MicrobatchContext& pass)
    : model_(model),
      first_layer_(setup.first_layer),
      last_layer_(setup.last_layer),
      recompute_(setup.recompute),
      pass_(pass) {}

Tensors Slot::run(std::span<const Tensor> parameters) const {
  return models::run_layers(model_, first_layer_, last_layer_, parameters, leaves_, pass_);
}

Tensors Slot::forward(std::span<const Tensor> parameters, const Tensors& inputs) {
  leaves_.clear();
  for (const Tensor& input : inputs) leaves_.push_back(input.detach().set_requires_grad(true));
  at::AutoGradMode with_graph(!recompute_);
  const Tensors outputs = run(parameters);
  if (!recompute_) roots_ = roots_of(outputs);
  Tensors plain;
  for (const Tensor& output : outputs) plain.push_back(output.detach());
  return plain;
}

Tensors Slot::backward(std::span<const Tensor> parameters, const Tensors& gradients) {
  if (recompute_) {
    at::AutoGradMode with_graph(true);
    roots_ = roots_of(run(parameters));
  }
  run_backward(roots_, gradients);
  roots_.clear();
  Tensors of_inputs;
  for (Tensor& leaf : leaves_) {
    of_inputs.push_back(leaf.grad());
    leaf.mutable_grad().reset();
  }
  leaves_.clear();
  return of_inputs;
}

}  // namespace twobw::runtime::gpu
