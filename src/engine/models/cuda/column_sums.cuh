// Sums over rows, in two steps and a fixed order: chunks of rows first, then the chunks.
#pragma once

#include <cuda_runtime_api.h>

namespace twobw::models::cuda {

struct Sums {
  const float* partial[2];  // [chunks, width] each
  float* gradient[2];
};

// gradient[column] += the sum over `chunks` rows of partial [chunks, width], for the first `count` of `sums`.
void add_partials(const Sums& sums, int count, int chunks, int width, cudaStream_t stream);

}  // namespace twobw::models::cuda
