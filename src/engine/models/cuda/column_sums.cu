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

unsigned blocks_for(int width, int pack) {
  return static_cast<unsigned>((width / pack + kColumns - 1) / kColumns);
}

template <int N, typename T>
void launch(const T* values, float* partial, std::int64_t rows, int width, int chunks, cudaStream_t stream) {
  chunk_kernel<N>
      <<<dim3(blocks_for(width, N), static_cast<unsigned>(chunks)), dim3(kColumns, kRows), 0, stream>>>(
          values, partial, rows, width);
}

}  // namespace

void add_partials(const Sums& sums, int count, int chunks, int width, cudaStream_t stream) {
  partials_kernel<<<dim3(blocks_for(width, 1), static_cast<unsigned>(count)), dim3(kColumns, kPartialRows), 0,
                    stream>>>(sums, chunks, width);
}

std::int64_t column_sums_partials(std::int64_t rows, int width) {
  return chunks_of(rows) * width;
}

template <typename T>
void add_column_sums(const T* values, float* gradient, float* partial, std::int64_t rows, int width,
                     cudaStream_t stream) {
  const int chunks = static_cast<int>(chunks_of(rows));
  if (aligned_for(width, kFullPack<T>))
    launch<kFullPack<T>>(values, partial, rows, width, chunks, stream);
  else
    launch<1>(values, partial, rows, width, chunks, stream);
  add_partials({.partial = {partial}, .gradient = {gradient}}, 1, chunks, width, stream);
}

template void add_column_sums(const float*, float*, float*, std::int64_t, int, cudaStream_t);
template void add_column_sums(const __nv_bfloat16*, float*, float*, std::int64_t, int, cudaStream_t);
template void add_column_sums(const __half*, float*, float*, std::int64_t, int, cudaStream_t);

}  // namespace twobw::models::cuda
