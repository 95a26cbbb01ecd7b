// A backward pass from the edges of the graph; the outputs may be freed before it.
#pragma once

#include <c10/core/AutogradState.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "core/base/error.h"
#include "engine/models/layer.h"

namespace twobw::runtime {

// The outputs' edges in the graph.
inline torch::autograd::edge_list roots_of(const models::Tensors& outputs) {
  torch::autograd::edge_list roots;
  for (const at::Tensor& output : outputs) {
    roots.push_back(torch::autograd::impl::gradient_edge(output));
    TWOBW_ASSERT(roots.back().is_valid(), "output {} has no gradient", roots.size() - 1);
  }
  return roots;
}

// Like torch::autograd::backward. Without gradients: of a scalar loss.
inline void run_backward(const torch::autograd::edge_list& roots, const models::Tensors& gradients) {
  torch::autograd::Engine::get_default_engine().execute(
      roots, gradients.empty() ? models::Tensors{at::ones({})} : gradients, /*keep_graph=*/false,
      /*create_graph=*/false, /*accumulate_grad=*/true);
}

// Scope in which the calling thread runs its own backwards. LibTorch has one backward thread for each GPU, so
// that slices of it would wait for one another.
class BackwardHere {
 public:
  BackwardHere() : elsewhere_(state().get_multithreading_enabled()) {
    state().set_multithreading_enabled(false);
  }
  ~BackwardHere() { state().set_multithreading_enabled(elsewhere_); }
  BackwardHere(const BackwardHere&) = delete;
  BackwardHere& operator=(const BackwardHere&) = delete;

 private:
  static c10::AutogradState& state() { return c10::AutogradState::get_tls_state(); }
  bool elsewhere_;
};

}  // namespace twobw::runtime
