// A backward pass from the edges of the graph: the outputs themselves may be gone by then.
#pragma once

#include <c10/core/AutogradState.h>
#include <torch/csrc/autograd/function.h>

#include "engine/models/layer.h"

namespace twobw::runtime {

// What a backward needs of the outputs: their place in the graph.
torch::autograd::edge_list roots_of(const models::Tensors& outputs);

// As torch::autograd::backward. No gradients: of a scalar loss.
void run_backward(const torch::autograd::edge_list& roots, const models::Tensors& gradients);

// While it lives, the calling thread runs its backwards itself. LibTorch has one thread for all those on a
// GPU, where slices of it wait for one another: unless they only capture, a worker does better without.
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
