#include "engine/models/cuda/block.cuh"

#include <algorithm>

#include "engine/models/kernels_cuda.h"

namespace twobw::models::cuda {
namespace {

constexpr int kColumns = 32;                 // of a block's threads
constexpr int kRows = 8, kPartialRows = 32;  // as many threads a column
constexpr std::int64_t kChunks = 128;

std::int64_t chunks_of(std::int64_t rows) {
  return std::min(rows, kChunks);
}

// Sums over the threads of a column; the first has the result.
template <int Rows, int N>
__device__ void sum_over_rows(float (&sum)[N]) {
  __shared__ float sums[Rows][kColumns][N];
#pragma unroll
  for (int i = 0; i < N; ++i) sums[threadIdx.y][threadIdx.x][i] = sum[i];
  __syncthreads();
  if (threadIdx.y > 0) return;
  for (int y = 1; y < Rows; ++y) {
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += sums[y][threadIdx.x][i];
  }
}

template <int N, typename T>
__global__ void chunk_kernel(const T* values, float* partial, std::int64_t rows, int width) {
  const int column = static_cast<int>(blockIdx.x * kColumns + threadIdx.x) * N;
  const std::int64_t size = (rows + gridDim.y - 1) / gridDim.y;
  const std::int64_t begin = blockIdx.y * size, end = min(begin + size, rows);
  float sum[N] = {};
  if (column < width) {
#pragma unroll 4
    for (std::int64_t row = begin + threadIdx.y; row < end; row += kRows) {
      float x[N];
      load<N>(values + row * width + column, x);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += x[i];
    }
  }
  sum_over_rows<kRows>(sum);
  if (threadIdx.y > 0 || column >= width) return;
#pragma unroll
  for (int i = 0; i < N; ++i) partial[static_cast<std::int64_t>(blockIdx.y) * width + column + i] = sum[i];
}

__global__ void partials_kernel(Sums sums, int chunks, int width) {
  const int column = static_cast<int>(blockIdx.x * kColumns + threadIdx.x);
  const float* partial = blockIdx.y == 0 ? sums.partial[0] : sums.partial[1];
  float* gradient = blockIdx.y == 0 ? sums.gradient[0] : sums.gradient[1];
  float sum[1] = {};
  if (column < width) {
#pragma unroll 8
    for (int chunk = static_cast<int>(threadIdx.y); chunk < chunks; chunk += kPartialRows)
      sum[0] += partial[static_cast<std::int64_t>(chunk) * width + column];
  }
  sum_over_rows<kPartialRows>(sum);
  if (threadIdx.y == 0 && column < width) gradient[column] += sum[0];
}

}  // namespace

void add_partials(const Sums& sums, int count, int chunks, int width, cudaStream_t stream) {
  partials_kernel<<<dim3(blocks_of(width, kColumns), static_cast<unsigned>(count)),
                    dim3(kColumns, kPartialRows), 0, stream>>>(sums, chunks, width);
}

std::int64_t column_sums_partials(std::int64_t rows, int width) {
  return chunks_of(rows) * width;
}

template <typename T>
void add_column_sums(const T* values, float* gradient, float* partial, std::int64_t rows, int width,
                     cudaStream_t stream) {
  const int chunks = static_cast<int>(chunks_of(rows));
  with_pack<T>(width, [&]<int N>() {
    const dim3 blocks(blocks_of(width / N, kColumns), static_cast<unsigned>(chunks));
    chunk_kernel<N><<<blocks, dim3(kColumns, kRows), 0, stream>>>(values, partial, rows, width);
  });
  add_partials({.partial = {partial}, .gradient = {gradient}}, 1, chunks, width, stream);
}

#define TWOBW_KERNELS(T) \
  template void add_column_sums(const T*, float*, float*, std::int64_t, int, cudaStream_t);
TWOBW_FOR_ELEMENT_TYPES(TWOBW_KERNELS)
#undef TWOBW_KERNELS

}  // namespace twobw::models::cuda
