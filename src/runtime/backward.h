// A backward pass from the edges of the graph: the outputs themselves may be gone by then.
#pragma once

#include <torch/csrc/autograd/function.h>

#include "models/layer.h"

namespace twobw::runtime {

// What a backward needs of the outputs: their place in the graph.
torch::autograd::edge_list roots_of(const models::Tensors& outputs);

// As torch::autograd::backward. No gradients: of a scalar loss.
void run_backward(const torch::autograd::edge_list& roots, const models::Tensors& gradients);

}  // namespace twobw::runtime
