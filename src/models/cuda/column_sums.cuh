// Sums over rows, in two steps and a fixed order: chunks of rows first, then the chunks.
#pragma once

#include <cuda_runtime_api.h>

namespace twobw::models::cuda {

// gradient[column] += the sum over `chunks` rows of partial [chunks, width].
void add_partials(const float* partial, float* gradient, int chunks, int width, cudaStream_t stream);

}  // namespace twobw::models::cuda
