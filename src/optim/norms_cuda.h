// Squared norms of gradients, a number a parameter, so that their sum rounds alike however parameters are
// dealt out to stages.
#pragma once

#include <cuda_runtime_api.h>

#include "optim/kernels_cuda.h"

namespace twobw::optim::cuda {

// norms[p] of the pieces [first[p], first[p + 1]), in an order that depends on them alone. `partial` has room
// for a double a piece.
void squared_norms(const float* values, const Piece* pieces, int piece_count, const int* first,
                   int parameter_count, double* partial, double* norms, cudaStream_t stream);

// Their sum, one after the other.
void sum_in_order(const double* values, int count, double* sum, cudaStream_t stream);

}  // namespace twobw::optim::cuda
