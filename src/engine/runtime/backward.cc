#include "engine/runtime/backward.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include "core/base/error.h"

namespace twobw::runtime {

using torch::autograd::edge_list;

edge_list roots_of(const models::Tensors& outputs) {
  edge_list roots;
  for (const at::Tensor& output : outputs) {
    roots.push_back(torch::autograd::impl::gradient_edge(output));
    TWOBW_ASSERT(roots.back().is_valid(), "output {} has no gradient", roots.size() - 1);
  }
  return roots;
}

void run_backward(const edge_list& roots, const models::Tensors& gradients) {
  torch::autograd::Engine::get_default_engine().execute(
      roots, gradients.empty() ? models::Tensors{at::ones({})} : gradients, /*keep_graph=*/false,
      /*create_graph=*/false, /*accumulate_grad=*/true);
}

}  // namespace twobw::runtime
