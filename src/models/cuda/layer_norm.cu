#include <algorithm>

#include "models/cuda/block.cuh"
#include "models/cuda/column_sums.cuh"
#include "models/kernels_cuda.h"

namespace twobw::models::cuda {
namespace {

constexpr float kEps = 1e-5f;
constexpr int kSharedBytes = 48 << 10;
constexpr int kMostWarps = 4;

// A warp a row; the row waits in shared memory between the passes over it.
template <int N, typename T>
__global__ void forward_kernel(LayerNorm<T> norm) {
  extern __shared__ float shared[];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / kWarp) + warp;
  if (row >= norm.rows) return;
  float* kept = shared + warp * norm.width;
  const std::int64_t at = row * norm.width;

  float sum = 0;
  for (int column = lane * N; column < norm.width; column += kWarp * N) {
    float x[N];
    load<N>(norm.x + at + column, x);
    if (norm.residual != nullptr) {
      float before[N];
      load<N>(norm.residual + at + column, before);
#pragma unroll
      for (int i = 0; i < N; ++i) x[i] = to_float(from_float<T>(x[i] + before[i]));  // as the stream has it
      store<N>(x, norm.sum + at + column);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
      kept[column + i] = x[i];
      sum += x[i];
    }
  }
  const float mean = warp_sum(sum) / static_cast<float>(norm.width);
  float squares = 0;
  for (int column = lane * N; column < norm.width; column += kWarp * N) {
#pragma unroll
    for (int i = 0; i < N; ++i) squares += (kept[column + i] - mean) * (kept[column + i] - mean);
  }
  const float deviation = rsqrtf(warp_sum(squares) / static_cast<float>(norm.width) + kEps);
  for (int column = lane * N; column < norm.width; column += kWarp * N) {
    float weight[N], bias[N], out[N];
    load<N>(norm.weight + column, weight);
    load<N>(norm.bias + column, bias);
#pragma unroll
    for (int i = 0; i < N; ++i) out[i] = (kept[column + i] - mean) * deviation * weight[i] + bias[i];
    store<N>(out, norm.out + at + column);
  }
  if (lane == 0) {
    norm.mean[row] = mean;
    norm.deviation[row] = deviation;
  }
}

template <int N, typename T>
void launch_forward(const LayerNorm<T>& norm, cudaStream_t stream) {
  const int row_bytes = norm.width * static_cast<int>(sizeof(float));
  const int warps = std::clamp(kSharedBytes / row_bytes, 1, kMostWarps);
  const auto blocks = static_cast<unsigned>((norm.rows + warps - 1) / warps);
  forward_kernel<N><<<blocks, warps * kWarp, warps * row_bytes, stream>>>(norm);
}

constexpr int kBackwardThreads = 256;
constexpr int kMostPacks = 4;        // a thread's columns
constexpr std::int64_t kChunks = 1024;  // at most

std::int64_t chunks_of(std::int64_t rows) {
  return std::min(rows, kChunks);
}

// A block goes through rows one after the other; every thread has its columns, and their part of the
// gradients of weight and bias.
template <int N, int Packs, typename T>
__global__ void __launch_bounds__(kBackwardThreads) backward_kernel(LayerNormBackward<T> norm) {
  float grad_weight[Packs][N] = {}, grad_bias[Packs][N] = {};
  const float scale = 1.0f / static_cast<float>(norm.width);
  for (std::int64_t row = blockIdx.x; row < norm.rows; row += gridDim.x) {
    const std::int64_t at = row * norm.width;
    const float mean = norm.mean[row], deviation = norm.deviation[row];
    float hat[Packs][N], scaled[Packs][N];  // the normed row before weight and bias; grad_out times weight
    float sum = 0, product = 0;
#pragma unroll
    for (int p = 0; p < Packs; ++p) {
      const int column = (p * kBackwardThreads + threadIdx.x) * N;
      if (column >= norm.width) break;
      float x[N], weight[N], grad_out[N];
      load<N>(norm.sum + at + column, x);
      load<N>(norm.weight + column, weight);
      load<N>(norm.grad_out + at + column, grad_out);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        hat[p][i] = (x[i] - mean) * deviation;
        scaled[p][i] = grad_out[i] * weight[i];
        sum += scaled[p][i];
        product += scaled[p][i] * hat[p][i];
        grad_weight[p][i] += grad_out[i] * hat[p][i];
        grad_bias[p][i] += grad_out[i];
      }
    }
    const float2 total = block_sum<kBackwardThreads>(sum, product);
#pragma unroll
    for (int p = 0; p < Packs; ++p) {
      const int column = (p * kBackwardThreads + threadIdx.x) * N;
      if (column >= norm.width) break;
      float grad_x[N], grad_stream[N] = {};
      if (norm.grad_stream != nullptr) load<N>(norm.grad_stream + at + column, grad_stream);
#pragma unroll
      for (int i = 0; i < N; ++i)
        grad_x[i] =
            deviation * (scaled[p][i] - scale * (total.x + hat[p][i] * total.y)) + grad_stream[i];
      store<N>(grad_x, norm.grad_x + at + column);
    }
    __syncthreads();
  }
  float* partial = norm.partial + static_cast<std::int64_t>(blockIdx.x) * norm.width;
  float* partial_bias = partial + static_cast<std::int64_t>(gridDim.x) * norm.width;
#pragma unroll
  for (int p = 0; p < Packs; ++p) {
    const int column = (p * kBackwardThreads + threadIdx.x) * N;
    if (column >= norm.width) break;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      partial[column + i] = grad_weight[p][i];
      partial_bias[column + i] = grad_bias[p][i];
    }
  }
}

template <int N, typename T>
void launch_backward(const LayerNormBackward<T>& norm, cudaStream_t stream) {
  const auto chunks = static_cast<unsigned>(chunks_of(norm.rows));
  const int packs = (norm.width / N + kBackwardThreads - 1) / kBackwardThreads;
  static_assert(kMostPacks == 4);
  if (packs <= 1) backward_kernel<N, 1><<<chunks, kBackwardThreads, 0, stream>>>(norm);
  else if (packs <= 2) backward_kernel<N, 2><<<chunks, kBackwardThreads, 0, stream>>>(norm);
  else backward_kernel<N, 4><<<chunks, kBackwardThreads, 0, stream>>>(norm);
  const std::int64_t size = static_cast<std::int64_t>(chunks) * norm.width;
  add_partials(norm.partial, norm.grad_weight, static_cast<int>(chunks), norm.width, stream);
  add_partials(norm.partial + size, norm.grad_bias, static_cast<int>(chunks), norm.width, stream);
}

}  // namespace

std::int64_t layer_norm_partials(std::int64_t rows, int width) {
  return 2 * chunks_of(rows) * width;
}

template <typename T>
void layer_norm_forward(const LayerNorm<T>& norm, cudaStream_t stream) {
  if (aligned_for(norm.width, kFullPack<T>)) launch_forward<kFullPack<T>>(norm, stream);
  else launch_forward<1>(norm, stream);
}

template <typename T>
void layer_norm_backward(const LayerNormBackward<T>& norm, cudaStream_t stream) {
  if (aligned_for(norm.width, kFullPack<T>)) launch_backward<kFullPack<T>>(norm, stream);
  else launch_backward<1>(norm, stream);
}

template void layer_norm_forward(const LayerNorm<float>&, cudaStream_t);
template void layer_norm_forward(const LayerNorm<__nv_bfloat16>&, cudaStream_t);
template void layer_norm_backward(const LayerNormBackward<float>&, cudaStream_t);
template void layer_norm_backward(const LayerNormBackward<__nv_bfloat16>&, cudaStream_t);

}  // namespace twobw::models::cuda
