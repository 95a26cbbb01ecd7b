#include "optim/norms_cuda.h"

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

__global__ void __launch_bounds__(kThreads) piece_kernel(const float* values, const Piece* pieces, double* partial) {
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

__global__ void __launch_bounds__(kThreads) parameter_kernel(const double* partial, const int* first, double* norms) {
  double sum = 0;
  for (int piece = first[blockIdx.x] + static_cast<int>(threadIdx.x); piece < first[blockIdx.x + 1]; piece += kThreads)
    sum += partial[piece];
  sum = block_sum(sum);
  if (threadIdx.x == 0) norms[blockIdx.x] = sum;
}

__global__ void in_order_kernel(const double* values, int count, double* sum) {
  __shared__ double shared[kThreads];
  double total = 0;
  for (int begin = 0; begin < count; begin += kThreads) {
    const int mine = begin + static_cast<int>(threadIdx.x);
    if (mine < count) shared[threadIdx.x] = values[mine];
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int i = 0; i < min(kThreads, count - begin); ++i) total += shared[i];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) *sum = total;
}

}  // namespace

void squared_norms(const float* values, const Piece* pieces, int piece_count, const int* first,
                   int parameter_count, double* partial, double* norms, cudaStream_t stream) {
  if (piece_count > 0) piece_kernel<<<piece_count, kThreads, 0, stream>>>(values, pieces, partial);
  if (parameter_count > 0) parameter_kernel<<<parameter_count, kThreads, 0, stream>>>(partial, first, norms);
}

void sum_in_order(const double* values, int count, double* sum, cudaStream_t stream) {
  in_order_kernel<<<1, kThreads, 0, stream>>>(values, count, sum);
}

}  // namespace twobw::optim::cuda
