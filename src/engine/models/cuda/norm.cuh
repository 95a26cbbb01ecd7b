// Kernels of the layer norm, and of the RMS norm as a layer norm that is not Centered: without mean and bias.
// Each has two: for rows that fit in registers or shared memory, and for rows of any width.
#pragma once

#include <cuda_pipeline.h>

#include <algorithm>

#include "engine/models/cuda/block.cuh"
#include "engine/models/kernels_cuda.h"

namespace twobw::models::cuda::norms {

constexpr int kWarps = 4;  // of a block; a warp, or the block, takes a row at a time
constexpr int kThreads = kWarps * kWarp;
constexpr int kLane = 8;           // elements of a row in a lane, times Units
constexpr int kForwardUnits = 16;  // the widest row that a warp keeps in registers: 4096
constexpr int kBackwardUnits = 6;  // 1536
constexpr int kBlockUnits = 8;     // that a block keeps: 8192

// A lane's part of a row: pack p begins at column (p * Lanes + lane) * N.
template <int N, int Lanes = kWarp>
__device__ __forceinline__ int column_of(int pack) {
  return (pack * Lanes + static_cast<int>(threadIdx.x % Lanes)) * N;
}

// Over the `Lanes` threads of a row, a warp or a block, in each of them; a block must not come again before a
// __syncthreads().
template <int Lanes>
__device__ __forceinline__ float row_sum(float value) {
  if constexpr (Lanes == kWarp)
    return warp_sum(value);
  else
    return block_sum<kThreads>(value, 0).x;
}

template <bool Centered, int N, int Packs, int Lanes, typename T>
__global__ void __launch_bounds__(kThreads) forward_kernel(Norm<T> norm) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (kThreads / Lanes) + threadIdx.x / Lanes;
  if (row >= norm.rows) return;
  const std::int64_t at = row * norm.width;
  float x[Packs][N] = {};
#pragma unroll
  for (int p = 0; p < Packs; ++p) {
    if (column_of<N, Lanes>(p) < norm.width) load<N>(norm.x + at + column_of<N, Lanes>(p), x[p]);
  }
  float mean = 0;
  if constexpr (Centered) {
    float sum = 0;
#pragma unroll
    for (int p = 0; p < Packs; ++p) {
#pragma unroll
      for (int i = 0; i < N; ++i) sum += x[p][i];
    }
    mean = row_sum<Lanes>(sum) / static_cast<float>(norm.width);
    if constexpr (Lanes > kWarp) __syncthreads();
  }
  float squares = 0;
#pragma unroll
  for (int p = 0; p < Packs; ++p) {
    if (column_of<N, Lanes>(p) >= norm.width) continue;
#pragma unroll
    for (int i = 0; i < N; ++i) squares += (x[p][i] - mean) * (x[p][i] - mean);
  }
  const float deviation = rsqrtf(row_sum<Lanes>(squares) / static_cast<float>(norm.width) + norm.eps);
#pragma unroll
  for (int p = 0; p < Packs; ++p) {
    if (column_of<N, Lanes>(p) >= norm.width) continue;
    float weight[N], bias[N] = {};
    load<N>(norm.weight + column_of<N, Lanes>(p), weight);
    if constexpr (Centered) load<N>(norm.bias + column_of<N, Lanes>(p), bias);
#pragma unroll
    for (int i = 0; i < N; ++i) x[p][i] = (x[p][i] - mean) * deviation * weight[i] + bias[i];
    store<N>(x[p], norm.out + at + column_of<N, Lanes>(p));
  }
  if (threadIdx.x % Lanes == 0) {
    if constexpr (Centered) norm.mean[row] = mean;
    norm.deviation[row] = deviation;
  }
}

// Rows of any width, read again for every pass.
template <bool Centered, int N, typename T>
__global__ void __launch_bounds__(kThreads) any_width_forward_kernel(Norm<T> norm) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (row >= norm.rows) return;
  const int first = static_cast<int>(threadIdx.x % kWarp) * N;
  const std::int64_t at = row * norm.width;
  float mean = 0, squares = 0;
  if constexpr (Centered) {
    float sum = 0;
    for (int column = first; column < norm.width; column += kWarp * N) {
      float x[N];
      load<N>(norm.x + at + column, x);
#pragma unroll
      for (int i = 0; i < N; ++i) sum += x[i];
    }
    mean = warp_sum(sum) / static_cast<float>(norm.width);
  }
  for (int column = first; column < norm.width; column += kWarp * N) {
    float x[N];
    load<N>(norm.x + at + column, x);
#pragma unroll
    for (int i = 0; i < N; ++i) squares += (x[i] - mean) * (x[i] - mean);
  }
  const float deviation = rsqrtf(warp_sum(squares) / static_cast<float>(norm.width) + norm.eps);
  for (int column = first; column < norm.width; column += kWarp * N) {
    float x[N], weight[N], bias[N] = {};
    load<N>(norm.x + at + column, x);
    load<N>(norm.weight + column, weight);
    if constexpr (Centered) load<N>(norm.bias + column, bias);
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = (x[i] - mean) * deviation * weight[i] + bias[i];
    store<N>(x, norm.out + at + column);
  }
  if (threadIdx.x % kWarp == 0) {
    if constexpr (Centered) norm.mean[row] = mean;
    norm.deviation[row] = deviation;
  }
}

// Blocks of the backward, by the rows alone: each warp has some eight of them (or a block some 32), so that
// its sums of the gradients of weight and bias are worth writing.
inline std::int64_t chunks_of(std::int64_t rows) {
  return std::clamp<std::int64_t>((rows + 8 * kWarps - 1) / (8 * kWarps), 1, 2048);
}

// Shared-memory ring buffers of the backward: each thread prefetches its part of the next row while it
// computes on this one. Two rows if GPUs with little shared memory have space for them.
constexpr int kFetched = 3;  // x, the gradient of the output and that of the stream
constexpr std::size_t kMostRoom = 96 << 10;

template <int Packs>
constexpr std::size_t kRowRoom = static_cast<std::size_t>(kFetched) * Packs * 16 * kThreads;
template <int Packs>
constexpr int kRingRows = 2 * kRowRoom<Packs> <= kMostRoom ? 2 : 1;

template <int N, int Packs, int Lanes, typename T>
class Ring {
 public:
  __device__ Ring(const NormBackward<T>& norm, void* room)
      : norm_(norm), room_(static_cast<Pack<T, N>*>(room)) {}

  // To be called for every turn, past the last row too: turns are counted.
  __device__ void fetch(std::int64_t row, int turn) {
    if (row < norm_.rows) {
#pragma unroll
      for (int p = 0; p < Packs; ++p) {
        const int column = column_of<N, Lanes>(p);
        if (column >= norm_.width) continue;
        const std::int64_t at = row * norm_.width + column;
        copy(turn, 0, p, norm_.x + at);
        copy(turn, 1, p, norm_.grad_out + at);
        if (norm_.grad_stream != nullptr) copy(turn, 2, p, norm_.grad_stream + at);
      }
    }
    __pipeline_commit();
  }
  // Until only `later` turns are on their way.
  __device__ void await(int later) const {
    __pipeline_wait_prior(later);
  }

  __device__ const Pack<T, N>& x(int turn, int p) const {
    return place(turn, 0, p);
  }
  __device__ const Pack<T, N>& grad_out(int turn, int p) const {
    return place(turn, 1, p);
  }
  __device__ const Pack<T, N>& grad_stream(int turn, int p) const {
    return place(turn, 2, p);
  }

 private:
  __device__ Pack<T, N>& place(int turn, int which, int p) const {
    const int row = turn % kRingRows<Packs>;
    return room_[((row * kFetched + which) * Packs + p) * kThreads + threadIdx.x];
  }
  __device__ void copy(int turn, int which, int p, const T* from) {
    __pipeline_memcpy_async(&place(turn, which, p), from, sizeof(Pack<T, N>));
  }

  const NormBackward<T>& norm_;
  Pack<T, N>* room_;
};

// `Lanes` threads, a warp or a block, go through rows one after the other and keep their part of the
// gradients of weight and bias; the warps of a block add theirs up at the end, one after the other.
template <bool Centered, int N, int Packs, int Lanes, typename T>
__global__ void __launch_bounds__(kThreads) backward_kernel(NormBackward<T> norm) {
  extern __shared__ float4 room[];
  constexpr int groups = kThreads / Lanes, ahead = kRingRows<Packs> - 1;
  const int group = static_cast<int>(threadIdx.x) / Lanes;
  const float scale = 1.0f / static_cast<float>(norm.width);
  const bool streams = norm.grad_stream != nullptr;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * groups + group;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * groups;
  Ring<N, Packs, Lanes, T> ring(norm, room);
  float grad_weight[Packs][N] = {}, grad_bias[Packs][N] = {};
  for (int turn = 0; turn < ahead; ++turn) ring.fetch(first + turn * step, turn);
  int turn = 0;
  for (std::int64_t row = first; row < norm.rows; row += step, ++turn) {
    ring.fetch(row + ahead * step, turn + ahead);
    const float mean = Centered ? norm.mean[row] : 0, deviation = norm.deviation[row];
    ring.await(ahead);
    float sum = 0, product = 0;
#pragma unroll
    for (int p = 0; p < Packs; ++p) {
      if (column_of<N, Lanes>(p) >= norm.width) continue;
      float weight[N];
      load<N>(norm.weight + column_of<N, Lanes>(p), weight);
      const Pack<T, N> x = ring.x(turn, p), grad_out = ring.grad_out(turn, p);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float g = to_float(grad_out.values[i]);
        const float hat = (to_float(x.values[i]) - mean) * deviation;
        if constexpr (Centered) sum += g * weight[i];
        product += g * weight[i] * hat;
        grad_weight[p][i] += g * hat;
        if constexpr (Centered) grad_bias[p][i] += g;
      }
    }
    if constexpr (groups > 1) {
      if constexpr (Centered) sum = warp_sum(sum);
      product = warp_sum(product);
    } else {
      const float2 total = block_sum<kThreads>(sum, product);
      sum = total.x;
      product = total.y;
    }
    sum *= scale;
    product *= scale;
#pragma unroll
    for (int p = 0; p < Packs; ++p) {
      if (column_of<N, Lanes>(p) >= norm.width) continue;
      float weight[N], grad_x[N];
      load<N>(norm.weight + column_of<N, Lanes>(p), weight);
      const Pack<T, N> x = ring.x(turn, p), grad_out = ring.grad_out(turn, p);
      Pack<T, N> grad_stream = {};
      if (streams) grad_stream = ring.grad_stream(turn, p);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float hat = (to_float(x.values[i]) - mean) * deviation;
        grad_x[i] = deviation * (to_float(grad_out.values[i]) * weight[i] - sum - hat * product) +
                    to_float(grad_stream.values[i]);
      }
      store<N>(grad_x, norm.grad_x + row * norm.width + column_of<N, Lanes>(p));
    }
    if constexpr (groups == 1) __syncthreads();
  }
  float* partial = norm.partial + static_cast<std::int64_t>(blockIdx.x) * norm.width;
  float* partial_bias = partial + static_cast<std::int64_t>(gridDim.x) * norm.width;
  // Directly to the partial sums, or in turns to the warps' shared sums, which replace the rings.
  float* shared = reinterpret_cast<float*>(room);  // [2 or 1, width]: weight, bias
  float* to = groups > 1 ? shared : partial;
  float* to_bias = groups > 1 ? shared + norm.width : partial_bias;
  ring.await(0);
  __syncthreads();
  for (int at = 0; at < groups; ++at) {
    if (at == group) {
#pragma unroll
      for (int p = 0; p < Packs; ++p) {
        if (column_of<N, Lanes>(p) >= norm.width) continue;
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const int column = column_of<N, Lanes>(p) + i;
          to[column] = at == 0 ? grad_weight[p][i] : to[column] + grad_weight[p][i];
          if constexpr (Centered)
            to_bias[column] = at == 0 ? grad_bias[p][i] : to_bias[column] + grad_bias[p][i];
        }
      }
    }
    if constexpr (groups > 1) __syncthreads();
  }
  if constexpr (groups > 1) {
    for (int column = static_cast<int>(threadIdx.x); column < norm.width; column += kThreads) {
      partial[column] = shared[column];
      if constexpr (Centered) partial_bias[column] = shared[norm.width + column];
    }
  }
}

// Rows of any width: a block a row, read twice; the sums are kept where they are written in the end.
template <bool Centered, int N, typename T>
__global__ void __launch_bounds__(kThreads) any_width_backward_kernel(NormBackward<T> norm) {
  const int first = static_cast<int>(threadIdx.x) * N;
  const float scale = 1.0f / static_cast<float>(norm.width);
  float* partial = norm.partial + static_cast<std::int64_t>(blockIdx.x) * norm.width;
  float* partial_bias = partial + static_cast<std::int64_t>(gridDim.x) * norm.width;
  for (int column = first; column < norm.width; column += kThreads * N) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      partial[column + i] = 0;
      if constexpr (Centered) partial_bias[column + i] = 0;
    }
  }
  for (std::int64_t row = blockIdx.x; row < norm.rows; row += gridDim.x) {
    const std::int64_t at = row * norm.width;
    const float mean = Centered ? norm.mean[row] : 0, deviation = norm.deviation[row];
    float sum = 0, product = 0;
    for (int column = first; column < norm.width; column += kThreads * N) {
      float x[N], weight[N], grad_out[N];
      load<N>(norm.x + at + column, x);
      load<N>(norm.weight + column, weight);
      load<N>(norm.grad_out + at + column, grad_out);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float hat = (x[i] - mean) * deviation;
        if constexpr (Centered) sum += grad_out[i] * weight[i];
        product += grad_out[i] * weight[i] * hat;
        partial[column + i] += grad_out[i] * hat;
        if constexpr (Centered) partial_bias[column + i] += grad_out[i];
      }
    }
    const float2 total = block_sum<kThreads>(sum, product);
    for (int column = first; column < norm.width; column += kThreads * N) {
      float x[N], weight[N], grad_out[N], grad_x[N] = {};
      load<N>(norm.x + at + column, x);
      load<N>(norm.weight + column, weight);
      load<N>(norm.grad_out + at + column, grad_out);
      if (norm.grad_stream != nullptr) load<N>(norm.grad_stream + at + column, grad_x);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float hat = (x[i] - mean) * deviation;
        grad_x[i] += deviation * (grad_out[i] * weight[i] - scale * (total.x + hat * total.y));
      }
      store<N>(grad_x, norm.grad_x + at + column);
    }
    __syncthreads();
  }
}

}  // namespace twobw::models::cuda::norms
