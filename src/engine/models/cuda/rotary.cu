#include <algorithm>

#include "engine/models/cuda/block.cuh"
#include "engine/models/kernels_cuda.h"

namespace twobw::models::cuda {
namespace {

constexpr int kThreads = 128;

// A thread N pairs: a pack of a head's first half, and the one across from it in the second. Heads of v come
// last, and turn by nothing.
template <int N, bool Back, typename T>
__global__ void __launch_bounds__(kThreads) rotate_kernel(Rotary<T> rotary) {
  const int half = rotary.head / 2, packs = half / N;
  const int item = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  const int head = item / packs;
  if (head >= rotary.heads + 2 * rotary.kv_heads) return;
  const bool turns = head < rotary.heads + rotary.kv_heads;
  const int i = (item - head * packs) * N;
  const std::int64_t width = static_cast<std::int64_t>(rotary.heads + 2 * rotary.kv_heads) * rotary.head;
  for (std::int64_t position = blockIdx.y; position < rotary.length; position += gridDim.y) {
    const float* angles = rotary.table + position * rotary.head + i;
    float cosine[N], sine[N];
    load<N>(angles, cosine);
    load<N>(angles + half, sine);
    for (std::int64_t b = blockIdx.z; b < rotary.batch; b += gridDim.z) {
      const std::int64_t at = (b * rotary.length + position) * width + head * rotary.head + i;
      float first[N], second[N];
      load<N>(rotary.x + at, first);
      load<N>(rotary.x + at + half, second);
#pragma unroll
      for (int j = 0; turns && j < N; ++j) {
        const float s = Back ? -sine[j] : sine[j];
        const float turned = first[j] * cosine[j] - second[j] * s;
        second[j] = second[j] * cosine[j] + first[j] * s;
        first[j] = turned;
      }
      store<N>(first, rotary.out + at);
      store<N>(second, rotary.out + at + half);
    }
  }
}

template <bool Back, typename T>
void rotate(const Rotary<T>& rotary, cudaStream_t stream) {
  with_pack<T>(rotary.head / 2, [&]<int N>() {
    const int items = (rotary.heads + 2 * rotary.kv_heads) * (rotary.head / 2 / N);
    const dim3 blocks(blocks_of(items, kThreads), static_cast<unsigned>(std::min(rotary.length, kGridRows)),
                      static_cast<unsigned>(std::min(rotary.batch, kGridRows)));
    rotate_kernel<N, Back><<<blocks, kThreads, 0, stream>>>(rotary);
  });
}

}  // namespace

template <typename T>
void rotary_forward(const Rotary<T>& rotary, cudaStream_t stream) {
  rotate<false>(rotary, stream);
}

template <typename T>
void rotary_backward(const Rotary<T>& rotary, cudaStream_t stream) {
  rotate<true>(rotary, stream);
}

#define TWOBW_KERNELS(T)                                        \
  template void rotary_forward(const Rotary<T>&, cudaStream_t); \
  template void rotary_backward(const Rotary<T>&, cudaStream_t);
TWOBW_FOR_ELEMENT_TYPES(TWOBW_KERNELS)
#undef TWOBW_KERNELS

}  // namespace twobw::models::cuda
