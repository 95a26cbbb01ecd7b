#include <numeric>

#include "engine/models/cuda/block.cuh"
#include "engine/models/kernels_cuda.h"

namespace twobw::models::cuda {
namespace {

constexpr int kThreads = 256;

// A thread a pack of the output.
template <int N, typename T>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const T* token_weight, const T* position_weight, const std::int64_t* tokens, T* out,
                   std::int64_t rows, std::int64_t length, int width) {
  const std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (at >= rows * width) return;
  const std::int64_t row = at / width;
  const auto column = static_cast<int>(at - row * width);
  float token[N], position[N] = {};
  load<N>(token_weight + tokens[row] * width + column, token);
  if (position_weight != nullptr) load<N>(position_weight + row % length * width + column, position);
#pragma unroll
  for (int i = 0; i < N; ++i) token[i] += position[i];
  store<N>(token, out + at);
}

#if __CUDA_ARCH__ >= 900
template <int N>
inline constexpr bool kWideAtomics = N % 4 == 0;
#else
template <int N>
inline constexpr bool kWideAtomics = false;
#endif

template <int N>
__device__ __forceinline__ void add_atomically(float* to, const float (&values)[N]) {
  if constexpr (kWideAtomics<N>) {
#pragma unroll
    for (int i = 0; i < N; i += 4)
      atomicAdd(reinterpret_cast<float4*>(to + i),
                make_float4(values[i], values[i + 1], values[i + 2], values[i + 3]));
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) atomicAdd(to + i, values[i]);
  }
}

// A thread a pack of a position's gradient: the batch is added up in order. On the way the rows go to their
// tokens too, where the order does not matter.
template <int N, bool Tokens, typename T>
__global__ void __launch_bounds__(kThreads) backward_kernel(EmbedBackward<T> embed) {
  const std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (at >= embed.length * embed.width) return;
  const std::int64_t position = at / embed.width;
  const auto column = static_cast<int>(at - position * embed.width);
  float sum[N] = {};
  for (std::int64_t b = 0; b < embed.batch; ++b) {
    const std::int64_t row = b * embed.length + position;
    float gradient[N];
    load<N>(embed.grad_out + row * embed.width + column, gradient);
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += gradient[i];
    if constexpr (Tokens)
      add_atomically(embed.grad_tokens + embed.tokens[row] * embed.width + column, gradient);
  }
  if (embed.grad_positions == nullptr) return;
#pragma unroll
  for (int i = 0; i < N; ++i) embed.grad_positions[at + i] += sum[i];
}

constexpr int kRange = 64;  // tokens of a warp

// A warp owns kWarp * N columns of a range of tokens, and walks all rows in order: nobody else adds there.
template <int N, typename T>
__global__ void __launch_bounds__(kWarp) ordered_tokens_kernel(EmbedBackward<T> embed) {
  const auto lane = static_cast<int>(threadIdx.x);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kRange;
  const int column = (static_cast<int>(blockIdx.y) * kWarp + lane) * N;
  const std::int64_t rows = embed.batch * embed.length;
  std::int64_t next = lane < rows ? embed.tokens[lane] : -1;
  for (std::int64_t begin = 0; begin < rows; begin += kWarp) {
    const std::int64_t token = next;
    const std::int64_t ahead = begin + kWarp + lane;
    next = ahead < rows ? embed.tokens[ahead] : -1;
    unsigned ours = __ballot_sync(~0u, token >= first && token < first + kRange);
    while (ours != 0) {
      const int from = __ffs(static_cast<int>(ours)) - 1;
      ours &= ours - 1;
      const std::int64_t chosen = __shfl_sync(~0u, token, from);
      if (column >= embed.width) continue;
      float gradient[N], sum[N];
      load<N>(embed.grad_out + (begin + from) * embed.width + column, gradient);
      float* to = embed.grad_tokens + chosen * embed.width + column;
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] = to[i] + gradient[i];
#pragma unroll
      for (int i = 0; i < N; ++i) to[i] = sum[i];
    }
  }
}

// A thread a pack of the output.
template <int N, typename T>
__global__ void __launch_bounds__(kThreads)
    pack_kernel(const T* q, const T* k, const T* v, T* out, std::int64_t rows, int width, int kv_width) {
  const std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  const int packed = width + 2 * kv_width;
  if (at >= rows * packed) return;
  const std::int64_t row = at / packed;
  const auto column = static_cast<int>(at - row * packed);
  const T* from = q + row * width + column;
  if (column >= width + kv_width)
    from = v + row * kv_width + (column - width - kv_width);
  else if (column >= width)
    from = k + row * kv_width + (column - width);
  *reinterpret_cast<Pack<T, N>*>(out + at) = *reinterpret_cast<const Pack<T, N>*>(from);
}

template <int N, typename T>
void launch_backward(const EmbedBackward<T>& embed, cudaStream_t stream) {
  const unsigned blocks = blocks_of(embed.length * embed.width, kThreads * N);
  if (!embed.deterministic) {
    backward_kernel<N, true><<<blocks, kThreads, 0, stream>>>(embed);
    return;
  }
  if (embed.grad_positions != nullptr) backward_kernel<N, false><<<blocks, kThreads, 0, stream>>>(embed);
  const dim3 ranges(blocks_of(embed.vocabulary, kRange), blocks_of(embed.width, kWarp * N));
  ordered_tokens_kernel<N><<<ranges, kWarp, 0, stream>>>(embed);
}

}  // namespace

template <typename T>
void embed_forward(const T* token_weight, const T* position_weight, const std::int64_t* tokens, T* out,
                   std::int64_t batch, std::int64_t length, int width, cudaStream_t stream) {
  const std::int64_t rows = batch * length;
  with_pack<T>(width, [&]<int N>() {
    forward_kernel<N><<<blocks_of(rows * width, kThreads * N), kThreads, 0, stream>>>(
        token_weight, position_weight, tokens, out, rows, length, width);
  });
}

template <typename T>
void embed_backward(const EmbedBackward<T>& embed, cudaStream_t stream) {
  with_pack<T>(embed.width, [&]<int N>() { launch_backward<N>(embed, stream); });
}

template <typename T>
void pack_three(const T* q, const T* k, const T* v, T* out, std::int64_t rows, int width, int kv_width,
                cudaStream_t stream) {
  const std::int64_t size = rows * (width + 2 * kv_width);
  with_pack<T>(std::gcd(width, kv_width), [&]<int N>() {
    pack_kernel<N>
        <<<blocks_of(size, kThreads * N), kThreads, 0, stream>>>(q, k, v, out, rows, width, kv_width);
  });
}

#define TWOBW_KERNELS(T)                                                                                    \
  template void embed_forward(const T*, const T*, const std::int64_t*, T*, std::int64_t, std::int64_t, int, \
                              cudaStream_t);                                                                \
  template void embed_backward(const EmbedBackward<T>&, cudaStream_t);                                      \
  template void pack_three(const T*, const T*, const T*, T*, std::int64_t, int, int, cudaStream_t);
TWOBW_FOR_ELEMENT_TYPES(TWOBW_KERNELS)
#undef TWOBW_KERNELS

}  // namespace twobw::models::cuda
