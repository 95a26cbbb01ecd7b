#include <algorithm>

#include "engine/transport/add_replicas_cuda.h"

namespace twobw::transport::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMostBlocks = 1024;  // grid-stride loop

__device__ void operator+=(float4& sum, const float4& more) {
  sum.x += more.x;
  sum.y += more.y;
  sum.z += more.z;
  sum.w += more.w;
}

template <typename Values>
__device__ void add_at(const Buffers& from, const Buffers& to, std::int64_t i) {
  Values sum = reinterpret_cast<const Values*>(from.at[0])[i];
  for (int replica = 1; replica < from.count; ++replica) sum += reinterpret_cast<const Values*>(from.at[replica])[i];
  for (int replica = 0; replica < to.count; ++replica) reinterpret_cast<Values*>(to.at[replica])[i] = sum;
}

__global__ void __launch_bounds__(kThreads) add_kernel(Buffers from, Buffers to, std::int64_t count) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (std::int64_t i = first; i < count / 4; i += static_cast<std::int64_t>(gridDim.x) * kThreads)
    add_at<float4>(from, to, i);
  if (first < count % 4) add_at<float>(from, to, count / 4 * 4 + first);
}

}  // namespace

void add_replicas(const Buffers& from, const Buffers& to, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return;
  const std::int64_t blocks = (count / 4 + kThreads - 1) / kThreads;
  add_kernel<<<static_cast<int>(std::clamp<std::int64_t>(blocks, 1, kMostBlocks)), kThreads, 0, stream>>>(from, to, count);
}

}  // namespace twobw::transport::cuda
