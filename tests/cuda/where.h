// Which multiprocessors a stream's kernels run on.
#pragma once

#include <cuda_runtime_api.h>

namespace twobw {

// seen[i] becomes 1 for every multiprocessor i that ran a block.
void mark_multiprocessors(int* seen, int blocks, cudaStream_t stream);

}  // namespace twobw
