#include <algorithm>

#include "models/cuda/block.cuh"
#include "models/decode_kernels_cuda.h"

namespace twobw::models::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarp;
constexpr int kUnroll = 4;  // keys that a warp has on their way

// Element i of a head that turns by the angles of a place: with element i + size / 2, or i - size / 2.
template <typename T>
__device__ __forceinline__ float turned(const T* head, const float* angles, int i, int size) {
  const float own = to_float(head[i]);
  if (angles == nullptr) return own;
  const int half = size / 2, angle = i < half ? i : i - half;
  const float cosine = angles[angle], sine = angles[half + angle];
  const float other = to_float(head[i < half ? i + half : angle]);
  return to_float(from_float<T>(i < half ? own * cosine - other * sine : own * cosine + other * sine));
}

template <typename T>
__device__ __forceinline__ const float* angles_of(const CachedAttention<T>& attention, std::int64_t row) {
  return attention.angles == nullptr ? nullptr : attention.angles + attention.seen[row] * attention.size;
}

// A thread an element of a key or a value.
template <typename T>
__global__ void __launch_bounds__(kThreads) keep_kernel(CachedAttention<T> attention) {
  const int size = attention.size, heads = attention.key_heads;
  const int item = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (item >= 2 * heads * size) return;
  const std::int64_t row = blockIdx.y;
  const int head = item / size % heads, i = item % size;
  const bool is_value = item >= heads * size;
  const std::int64_t width = static_cast<std::int64_t>(attention.queries + 2 * heads) * size;
  const T* from =
      attention.qkv + row * width + static_cast<std::int64_t>(attention.queries) * size + (item - i);
  T* to = is_value ? attention.values : attention.keys;
  to[((row * heads + head) * attention.places + attention.seen[row]) * size + i] =
      from_float<T>(turned(from, is_value ? nullptr : angles_of(attention, row), i, size));
}

// Whether all other parts of the head have been written, and can be read; then it counts from 0 again. All
// threads of the block must come.
template <typename T>
__device__ bool is_last_to_come(const CachedAttention<T>& attention, std::int64_t row, int head) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    int* arrived = attention.arrived + row * attention.queries + head;
    last = atomicAdd(arrived, 1) == attention.splits - 1;
    if (last) *arrived = 0;
  }
  __syncthreads();
  __threadfence();
  return last;
}

// Past the first cache, which does not see what other multiprocessors have written.
template <typename T>
__device__ void join_parts(const CachedAttention<T>& attention, std::int64_t row, int head) {
  const int size = attention.size, splits = attention.splits;
  const std::int64_t of_head = row * attention.queries + head;
  const float* parts = attention.partial + of_head * splits * static_cast<std::int64_t>(size + 2);
  const auto read = [&](int split, int i) {
    return __ldcg(parts + split * static_cast<std::int64_t>(size + 2) + i);
  };
  float highest = -INFINITY, total = 0;
  for (int s = 0; s < splits; ++s) highest = fmaxf(highest, read(s, size));
  for (int s = 0; s < splits; ++s) {
    const float sum = read(s, size + 1);
    if (sum > 0) total += expf(read(s, size) - highest) * sum;
  }
  for (int i = static_cast<int>(threadIdx.x); i < size; i += kThreads) {
    float mix = 0;
    for (int s = 0; s < splits; ++s) {
      if (read(s, size + 1) > 0) mix += expf(read(s, size) - highest) * read(s, i);
    }
    attention.out[of_head * size + i] = from_float<T>(mix / total);
  }
}

// A block a part of the places, for one head of queries; its warps take kUnroll places in turn. E elements of
// a head a lane. Leaves the mix, the greatest score and the sum of the weights by it; the last block of a
// head to come puts them together, in the order of the parts.
template <int E, typename T>
__global__ void __launch_bounds__(kThreads) attend_kernel(CachedAttention<T> attention) {
  __shared__ float mixes[kWarps][E * kWarp];
  __shared__ float tops[kWarps], totals[kWarps];
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const int split = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y), size = attention.size;
  const std::int64_t row = blockIdx.z;
  const std::int64_t length = attention.seen[row] + 1;
  const std::int64_t part = (length + attention.splits - 1) / attention.splits;
  const std::int64_t begin = split * part, end = begin + part < length ? begin + part : length;
  const int group = attention.queries / attention.key_heads;
  const std::int64_t kept = (row * attention.key_heads + head / group) * attention.places * size;
  const T *keys = attention.keys + kept, *values = attention.values + kept;
  const std::int64_t width = static_cast<std::int64_t>(attention.queries + 2 * attention.key_heads) * size;
  const T* from = attention.qkv + row * width + static_cast<std::int64_t>(head) * size;

  const float scale = rsqrtf(static_cast<float>(size));
  float query[E], mix[E];
#pragma unroll
  for (int e = 0; e < E; ++e) {
    const int i = e * kWarp + lane;
    query[e] = i < size ? turned(from, angles_of(attention, row), i, size) * scale : 0.0f;
    mix[e] = 0;
  }
  float top = -INFINITY, total = 0;
  for (std::int64_t first = begin + warp * kUnroll; first < end; first += kWarps * kUnroll) {
    float scores[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      scores[u] = 0;
#pragma unroll
      for (int e = 0; e < E; ++e) {
        const int i = e * kWarp + lane;
        if (first + u < end && i < size) scores[u] += query[e] * to_float(keys[(first + u) * size + i]);
      }
    }
    float higher = top;
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      scores[u] = warp_sum(scores[u]);
      if (first + u < end) higher = fmaxf(higher, scores[u]);
    }
    const float shrink = expf(top - higher);  // 0 at first
    total *= shrink;
#pragma unroll
    for (int e = 0; e < E; ++e) mix[e] *= shrink;
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (first + u >= end) continue;
      const float weight = expf(scores[u] - higher);
      total += weight;
#pragma unroll
      for (int e = 0; e < E; ++e) {
        const int i = e * kWarp + lane;
        if (i < size) mix[e] += weight * to_float(values[(first + u) * size + i]);
      }
    }
    top = higher;
  }
#pragma unroll
  for (int e = 0; e < E; ++e) mixes[warp][e * kWarp + lane] = mix[e];
  if (lane == 0) {
    tops[warp] = top;
    totals[warp] = total;
  }
  __syncthreads();

  float highest = -INFINITY;
  for (int w = 0; w < kWarps; ++w) highest = fmaxf(highest, tops[w]);
  float* to = attention.partial + ((row * attention.queries + head) * attention.splits + split) *
                                      static_cast<std::int64_t>(size + 2);
  for (int i = static_cast<int>(threadIdx.x); i < size; i += kThreads) {
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) {
      if (totals[w] > 0) sum += expf(tops[w] - highest) * mixes[w][i];
    }
    to[i] = sum;
  }
  if (threadIdx.x == 0) {
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) {
      if (totals[w] > 0) sum += expf(tops[w] - highest) * totals[w];
    }
    to[size] = highest;
    to[size + 1] = sum;
  }
  if (is_last_to_come(attention, row, head)) join_parts(attention, row, head);
}

template <int E, typename T>
void launch_attend(const CachedAttention<T>& attention, cudaStream_t stream) {
  const dim3 blocks(static_cast<unsigned>(attention.splits), static_cast<unsigned>(attention.queries),
                    static_cast<unsigned>(attention.rows));
  attend_kernel<E><<<blocks, kThreads, 0, stream>>>(attention);
}

}  // namespace

int cached_attention_splits(int rows, int queries, std::int64_t places, int multiprocessors) {
  constexpr std::int64_t kBlocks = 4;         // on a multiprocessor
  constexpr std::int64_t kFewestPlaces = 32;  // that are worth a block, where the cache is full
  const std::int64_t wanted = (kBlocks * multiprocessors + rows * queries - 1) / (rows * queries);
  const std::int64_t most = (places + kFewestPlaces - 1) / kFewestPlaces;
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(most, 1)));
}

std::int64_t cached_attention_partials(int rows, int queries, int size, int splits) {
  return static_cast<std::int64_t>(rows) * queries * splits * (size + 2);
}

template <typename T>
void cached_attention(const CachedAttention<T>& attention, cudaStream_t stream) {
  const int elements = 2 * attention.key_heads * attention.size;
  const dim3 keeping(static_cast<unsigned>((elements + kThreads - 1) / kThreads),
                     static_cast<unsigned>(attention.rows));
  keep_kernel<<<keeping, kThreads, 0, stream>>>(attention);
  if (attention.size <= kWarp) {
    launch_attend<1>(attention, stream);
  } else if (attention.size <= 2 * kWarp) {
    launch_attend<2>(attention, stream);
  } else if (attention.size <= 4 * kWarp) {
    launch_attend<4>(attention, stream);
  } else if (attention.size <= 8 * kWarp) {
    launch_attend<8>(attention, stream);
  } else {
    launch_attend<16>(attention, stream);
  }
}

template void cached_attention(const CachedAttention<float>&, cudaStream_t);
template void cached_attention(const CachedAttention<__nv_bfloat16>&, cudaStream_t);
template void cached_attention(const CachedAttention<__half>&, cudaStream_t);

}  // namespace twobw::models::cuda
