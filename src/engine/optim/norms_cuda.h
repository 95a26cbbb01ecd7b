// Squared norms of gradients, some numbers a parameter (norm_piece in engine/optim/kernels.h), so that their
// sum rounds alike however parameters are dealt out to stages, and their pieces to replicas.
#pragma once

#include <cuda_runtime_api.h>

#include "engine/optim/kernels_cuda.h"

namespace twobw::optim::cuda {

// norms[n] of the pieces [first[n], first[n + 1]), in an order that depends on them alone. `partial` has room
// for a double a piece.
void squared_norms(const float* values, const Piece* pieces, int piece_count, const int* first,
                   int norm_count, double* partial, double* norms, cudaStream_t stream);

// Their sum, in an order that depends on how many they are alone.
void sum_norms(const double* norms, int count, double* sum, cudaStream_t stream);

}  // namespace twobw::optim::cuda
