#include <algorithm>

#include "models/cuda/early_begin.cuh"
#include "models/cuda/likeliest.cuh"
#include "models/cuda/step_notes.h"

namespace twobw::models::cuda {
namespace {

// Some blocks a row. The next kernel begins when all have ended:
// of the next step attention reads `seen` before it waits.
template <int N, typename T>
__global__ void __launch_bounds__(likeliest::kThreads)
    likeliest_kernel(const __grid_constant__ Likeliest<T> row) {
  await_kernel_before();
  likeliest::take_part<N>(row, blockIdx.y, blockIdx.x, gridDim.x, [] { __syncthreads(); });
}

template <int N, typename T>
void launch(const Likeliest<T>& rows, cudaStream_t stream) {
  constexpr int kThreads = likeliest::kThreads;
  constexpr std::int64_t kMostBlocks = 64;  // of a row
  const std::int64_t each = std::int64_t{kThreads} * N;
  const auto blocks = static_cast<unsigned>(std::min((rows.classes + each - 1) / each, kMostBlocks));
  launch_in_step(likeliest_kernel<N, T>,
                 {.blocks = dim3(blocks, static_cast<unsigned>(rows.rows)), .threads = kThreads}, stream,
                 rows);
  note_in_step(StepKind::Likeliest, rows);
}

}  // namespace

template <typename T>
void take_likeliest(const Likeliest<T>& rows, cudaStream_t stream) {
  if (rows.classes % kFullPack<T> == 0) {
    launch<kFullPack<T>>(rows, stream);
  } else {
    launch<1>(rows, stream);
  }
}

template void take_likeliest(const Likeliest<float>&, cudaStream_t);
template void take_likeliest(const Likeliest<__nv_bfloat16>&, cudaStream_t);
template void take_likeliest(const Likeliest<__half>&, cudaStream_t);

}  // namespace twobw::models::cuda
