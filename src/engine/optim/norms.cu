#include "engine/optim/kernels_cuda.h"

namespace twobw::optim::cuda {
namespace {

constexpr int kThreads = 256;

// In thread 0, in an order of its own that never changes. Once a kernel.
__device__ double block_sum(double value) {
  __shared__ double sums[kThreads / 32];
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(~0u, value, offset);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  double total = 0;
  if (threadIdx.x == 0) {
    for (const double sum : sums) total += sum;
  }
  return total;
}

__global__ void __launch_bounds__(kThreads)
    piece_kernel(const float* values, const Piece* pieces, double* partial) {
  const Piece piece = pieces[blockIdx.x];
  const float* from = values + piece.offset;
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < piece.count; i += kThreads) {
    const double value = from[i];
    sum += value * value;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// A warp a norm.
__global__ void __launch_bounds__(kThreads)
    norm_kernel(const double* partial, const int* first, int norm_count, double* norms) {
  const int norm = static_cast<int>(blockIdx.x) * (kThreads / 32) + static_cast<int>(threadIdx.x) / 32;
  if (norm >= norm_count) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  double sum = 0;
  for (int piece = first[norm] + lane; piece < first[norm + 1]; piece += 32) sum += partial[piece];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
  if (lane == 0) norms[norm] = sum;
}

__global__ void __launch_bounds__(kThreads) sum_kernel(const double* values, int count, double* sum) {
  double total = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) total += values[i];
  total = block_sum(total);
  if (threadIdx.x == 0) *sum = total;
}

}  // namespace

void squared_norms(const float* values, const Piece* pieces, int piece_count, const int* first,
                   int norm_count, double* partial, double* norms, cudaStream_t stream) {
  constexpr int kEach = kThreads / 32;  // norms that a block makes
  if (piece_count > 0) piece_kernel<<<piece_count, kThreads, 0, stream>>>(values, pieces, partial);
  if (norm_count > 0)
    norm_kernel<<<(norm_count + kEach - 1) / kEach, kThreads, 0, stream>>>(partial, first, norm_count, norms);
}

void sum_norms(const double* norms, int count, double* sum, cudaStream_t stream) {
  sum_kernel<<<1, kThreads, 0, stream>>>(norms, count, sum);
}

}  // namespace twobw::optim::cuda
