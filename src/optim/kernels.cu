#include <algorithm>

#include "optim/kernels_cuda.h"

namespace twobw::optim::cuda {
namespace {

constexpr int kThreads = 256;

__device__ AdamWRule rule_of(const AdamW& adamw, float decay, const Control& control) {
  const double n = control.applied + 1;
  return {.learning_rate = adamw.learning_rate,
          .beta1 = adamw.beta1,
          .beta2 = adamw.beta2,
          .eps = adamw.eps,
          .decay = decay,
          .correction1 = static_cast<float>(1.0 - pow(static_cast<double>(adamw.beta1), n)),
          .root_correction2 = static_cast<float>(sqrt(1.0 - pow(static_cast<double>(adamw.beta2), n))),
          .gradient_scale = control.gradient_scale};
}

__device__ SgdRule rule_of(const Sgd& sgd, float decay, const Control& control) {
  return {.learning_rate = sgd.learning_rate,
          .momentum = sgd.momentum,
          .decay = decay,
          .gradient_scale = control.gradient_scale};
}

template <typename Optimizer, typename Compute>
__global__ void __launch_bounds__(kThreads)
    apply_kernel(Optimizer optimizer, Extrapolation extrapolation, StreamsOf<Compute> streams,
                 const Piece* pieces, const Control* control) {
  using Rule = decltype(rule_of(optimizer, 0.0f, *control));
  __shared__ Rule shared_rule;
  __shared__ Extrapolation shared_extrapolation;
  const Piece piece = pieces[blockIdx.x];
  const Control now = *control;
  if (threadIdx.x == 0) {
    shared_rule = rule_of(optimizer, piece.decay, now);
    shared_extrapolation = extrapolation;
    if (now.applied < 1) shared_extrapolation.update = 0;
    if (now.applied < 2) shared_extrapolation.update2 = 0;
  }
  __syncthreads();
  const Rule rule = shared_rule;
  const Extrapolation e = shared_extrapolation;
  if (now.skip != 0) {
    for (int i = threadIdx.x; i < piece.count; i += kThreads) skip_element(e, streams, piece.offset + i);
    return;
  }
#pragma unroll 4
  for (int i = threadIdx.x; i < piece.count; i += kThreads)
    apply_element(rule, e, streams, piece.offset + i);
}

// Sums over a block; the result is in thread 0.
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
    squares_kernel(const float* values, const Piece* pieces, double* partial) {
  const Piece piece = pieces[blockIdx.x];
  double sum = 0;
  for (int i = threadIdx.x; i < piece.count; i += kThreads) {
    const double value = values[piece.offset + i];
    sum += value * value;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads) sum_kernel(const double* partial, int count, double* result) {
  double sum = 0;
  for (int i = threadIdx.x; i < count; i += kThreads) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *result = sum;
}

__global__ void prepare_kernel(const double* squared_norm, double clip, Control* control) {
  const double norm = sqrt(*squared_norm);
  control->squared_norm = *squared_norm;
  control->skip = isfinite(norm) ? 0 : 1;
  control->gradient_scale = clip > 0 ? static_cast<float>(fmin(1.0, clip / (norm + 1e-6))) : 1.0f;
}

__global__ void count_kernel(Control* control) {
  if (control->skip == 0) ++control->applied;
}

}  // namespace

void add_pieces(std::vector<Piece>& pieces, std::int64_t offset, std::int64_t count, float decay) {
  for (std::int64_t begin = 0; begin < count; begin += kPieceSize) {
    const auto size = static_cast<std::int32_t>(std::min<std::int64_t>(kPieceSize, count - begin));
    pieces.push_back({.offset = offset + begin, .count = size, .decay = decay});
  }
}

template <typename Optimizer, typename Compute>
void apply(const Optimizer& optimizer, const Extrapolation& extrapolation, const StreamsOf<Compute>& streams,
           const Piece* pieces, int piece_count, const Control* control, cudaStream_t stream) {
  apply_kernel<<<piece_count, kThreads, 0, stream>>>(optimizer, extrapolation, streams, pieces, control);
}

template void apply(const AdamW&, const Extrapolation&, const StreamsOf<float>&, const Piece*, int,
                    const Control*, cudaStream_t);
template void apply(const AdamW&, const Extrapolation&, const StreamsOf<__nv_bfloat16>&, const Piece*, int,
                    const Control*, cudaStream_t);
template void apply(const Sgd&, const Extrapolation&, const StreamsOf<float>&, const Piece*, int,
                    const Control*, cudaStream_t);
template void apply(const Sgd&, const Extrapolation&, const StreamsOf<__nv_bfloat16>&, const Piece*, int,
                    const Control*, cudaStream_t);

void squared_norm(const float* values, const Piece* pieces, int piece_count, double* partial, double* sum,
                  cudaStream_t stream) {
  squares_kernel<<<piece_count, kThreads, 0, stream>>>(values, pieces, partial);
  sum_kernel<<<1, kThreads, 0, stream>>>(partial, piece_count, sum);
}

void prepare(const double* squared_norm, double clip, Control* control, cudaStream_t stream) {
  prepare_kernel<<<1, 1, 0, stream>>>(squared_norm, clip, control);
}

void count_update(Control* control, cudaStream_t stream) {
  count_kernel<<<1, 1, 0, stream>>>(control);
}

}  // namespace twobw::optim::cuda
