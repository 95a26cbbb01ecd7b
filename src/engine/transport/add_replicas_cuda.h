// GPU kernel that sums the replicas' gradients.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/transport/sum_rounds.h"

namespace twobw::transport::cuda {

struct Buffers {
  float* at[kMostReplicasOnGpus];
  int count = 0;

  void add(float* buffer) { at[count++] = buffer; }
};

// to[any][i] = from[0][i] + from[1][i] + ..., in this order. A buffer may be in both lists. All are aligned
// to 16 bytes.
void add_replicas(const Buffers& from, const Buffers& to, std::int64_t count, cudaStream_t stream);

}  // namespace twobw::transport::cuda
