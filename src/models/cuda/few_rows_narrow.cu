// Tensor cores multiply 8 columns of weights at a time with up to 8 rows, so that 8 rows take what one does.
// What a product waits for is the weights: the first of them are on their way before the kernel before has
// ended, and the next kernel begins when the last have been asked for. (Earlier, its own would take their
// turn.)
#include <algorithm>

#include "models/cuda/early_begin.cuh"
#include "models/cuda/few_rows.cuh"
#include "models/cuda/few_rows_weights.cuh"
#include "models/cuda/shared_room.h"

namespace twobw::models::cuda {
namespace narrow {
namespace {

template <typename T>
__device__ __forceinline__ void unpack(const uint4& raw, float (&to)[kPack]) {
  const auto pack = *reinterpret_cast<const Pack<T, kPack>*>(&raw);
#pragma unroll
  for (int i = 0; i < kPack; ++i) to[i] = to_float(pack.values[i]);
}

// Where a pack of a row lies in the block's shared memory.
template <typename T>
__device__ __forceinline__ uint4* staged_pack(T* staged, const Layout& layout, int row, int pack) {
  return reinterpret_cast<uint4*>(staged + row * layout.stride + pack * kPack);
}

// Up to Rows rows to shared memory, Packs packs of each by a thread at once: all are asked for before the
// first is used. The sums of their squares are made in the same order whatever these are.
template <bool Normed, int Rows, int Packs, typename T>
__device__ __forceinline__ void copy_rows(const FewRows<T>& product, const Layout& layout, T* staged,
                                          float (&squares)[kMostFewRows]) {
  const auto packs = static_cast<int>(product.in / kPack);
  for (int first = static_cast<int>(threadIdx.x); first < layout.padded / kPack; first += Packs * kThreads) {
    uint4 raw[Packs][Rows];
#pragma unroll
    for (int i = 0; i < Packs; ++i) {
      const int pack = first + i * kThreads;
#pragma unroll
      for (int row = 0; row < Rows; ++row) {
        raw[i][row] = make_uint4(0, 0, 0, 0);
        if (row < product.rows && pack < packs)
          raw[i][row] = __ldcg(reinterpret_cast<const uint4*>(product.x + row * product.in) + pack);
      }
    }
#pragma unroll
    for (int i = 0; i < Packs; ++i) {
      const int pack = first + i * kThreads;
      if (pack >= layout.padded / kPack) continue;
#pragma unroll
      for (int row = 0; row < Rows; ++row) {
        if (row >= product.rows) continue;
        *staged_pack(staged, layout, row, pack) = raw[i][row];
        if constexpr (Normed) {
          float x[kPack];
          unpack<T>(raw[i][row], x);
#pragma unroll
          for (int v = 0; v < kPack; ++v) squares[row] = fmaf(x[v], x[v], squares[row]);
        }
      }
    }
  }
}

// The block's own copy of the rows, normed where there are gains: this thread's are on their way to `gains`,
// before the ring's groups.
template <bool Normed, int Depth, typename T>
__device__ __forceinline__ void stage_rows(const FewRows<T>& product, const Layout& layout, T* staged,
                                           const uint4* gains) {
  __shared__ float sums[kMostFewRows][kWarps];
  const auto thread = static_cast<int>(threadIdx.x);
  float squares[kMostFewRows] = {};
  if (product.rows == 1) {
    copy_rows<Normed, 1, 8>(product, layout, staged, squares);
  } else if (product.rows <= 4) {
    copy_rows<Normed, 4, 2>(product, layout, staged, squares);
  } else {
    copy_rows<Normed, kMostFewRows, 1>(product, layout, staged, squares);
  }
  if constexpr (Normed) {
    const auto packs = static_cast<int>(product.in / kPack);
#pragma unroll
    for (int row = 0; row < kMostFewRows; ++row) {
      if (row >= product.rows) continue;
      const float sum = warp_sum(squares[row]);
      if (thread % kWarp == 0) sums[row][thread / kWarp] = sum;
    }
    await_groups<Depth>();
    __syncthreads();
    for (int row = 0; row < product.rows; ++row) {
      float sum = 0;
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) sum += sums[row][warp];
      const float scale = rsqrtf(sum / static_cast<float>(product.in) + product.eps);
      for (int pack = thread; pack < packs; pack += kThreads) {
        uint4* place = staged_pack(staged, layout, row, pack);
        float x[kPack], gain[kPack];
        unpack<T>(*place, x);
        unpack<T>(gains[pack], gain);
#pragma unroll
        for (int i = 0; i < kPack; ++i) x[i] *= scale * gain[i];
        store<kPack>(x, reinterpret_cast<T*>(place));
      }
    }
  }
  __syncthreads();
}

// What a lane writes of a tile: up to two sums, as `item` = lane and lane + kWarp count them by row and
// column.
template <bool Gated, typename T>
struct Outputs {
  static constexpr int kEach = kItems / kWarp;
  float added[kEach] = {}, bias[kEach] = {};

  static __device__ bool exists(const FewRows<T>& product, std::int64_t first, int item) {
    return item < kTile * product.rows && first + item % kTile < product.columns;
  }
  static __device__ std::int64_t place_of(const FewRows<T>& product, std::int64_t first, int item) {
    return item / kTile * product.columns + first + item % kTile;
  }

  // Before it is needed.
  __device__ void read_addends(const FewRows<T>& product, std::int64_t first, int lane) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int item = lane + i * kWarp;
      if (!exists(product, first, item)) continue;
      if (product.added != nullptr)
        added[i] = to_float(__ldcg(product.added + place_of(product, first, item)));
      if (product.bias != nullptr) bias[i] = to_float(product.bias[first + item % kTile]);
    }
  }

  // The warps' sums in their order: [warps, 1, or gates and values, items].
  __device__ void write(const FewRows<T>& product, std::int64_t first, int lane, const float* sums) const {
    const int items = kTile * product.rows, each = Gated ? 2 * items : items;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int item = lane + i * kWarp;
      if (!exists(product, first, item)) continue;
      float total = 0;
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) total += sums[warp * each + item];
      if constexpr (Gated) {
        float value = 0;
#pragma unroll
        for (int warp = 0; warp < kWarps; ++warp) value += sums[warp * each + items + item];
        const float gate = to_float(from_float<T>(total));
        total = to_float(from_float<T>(value)) * gate * __fdividef(1.0f, 1.0f + expf(-gate));
      }
      if (product.added != nullptr) total += added[i];
      if (product.bias != nullptr) total += bias[i];
      product.out[place_of(product, first, item)] = from_float<T>(total);
    }
  }
};

template <bool Normed, bool Gated, int Depth, typename T>
__global__ void __launch_bounds__(kThreads)
    few_narrow_kernel(const __grid_constant__ FewRows<T> product, Layout layout) {
  extern __shared__ uint4 room[];
  auto* staged = reinterpret_cast<T*>(room + kRing<Depth>);
  auto* sums = reinterpret_cast<float*>(staged + product.rows * layout.stride);
  auto* gains = reinterpret_cast<uint4*>(sums + Layout::sums<Gated>(product.rows));
  const auto thread = static_cast<int>(threadIdx.x), warp = thread / kWarp, lane = thread % kWarp;
  const int column = lane / 4, rest = lane % 4;

  if constexpr (Normed) {
    for (int pack = thread; pack < product.in / kPack; pack += kThreads)
      fetch(gains + pack, product.gain + pack * kPack, true, read_once_policy());
    end_group();
  }
  Weights<Gated, T> weights(product, layout.groups, room);
#pragma unroll
  for (int place = 0; place < Depth; ++place) weights.fetch_next(place);
  // The threads of a warp come to the end together, but for those past the last column.
  bool is_at_end = false;
  const auto look_for_end = [&] {
    if (is_at_end || !__all_sync(~0u, weights.have_all_been_asked_for())) return;
    is_at_end = true;
    let_next_begin();
  };
  await_kernel_before();
  look_for_end();
  stage_rows<Normed, Depth>(product, layout, staged, gains);

  // Sums of rows that there are not are made of the last's, and not used.
  const T* x = staged + min(column, product.rows - 1) * layout.stride + rest * kPack;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kTile;
  int place = 0, tile = 0;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kTile; first < product.columns;
       first += stride, ++tile) {
    Outputs<Gated, T> outputs;
    const bool writes = tile % kWarps == warp;
    if (writes) outputs.read_addends(product, first, lane);
    float sum[2][4] = {};
    for (int group = warp; group < layout.groups; group += kWarps) {
      await_groups<Depth - 1>();
      weights.multiply_with(x + group * kGroupElements<Gated>, place, sum);
      weights.fetch_next(place);
      look_for_end();
      place = place + 1 < Depth ? place + 1 : 0;
    }
    // Two tiles' sums lie side by side: these are overwritten after all have come to the next tile's end.
    const int items = kTile * product.rows, each = Gated ? 2 * items : items;
    float *of_tile = sums + tile % 2 * kWarps * each, *own = of_tile + warp * each;
#pragma unroll
    for (int i = 0; i < (Gated ? 4 : 2); ++i) {
      const int row = 2 * rest + i % 2;
      if (row < product.rows) own[i / 2 * items + row * kTile + column] = sum[0][i] + sum[1][i];
    }
    __syncthreads();
    if (writes) outputs.write(product, first, lane, of_tile);
  }
}

template <bool Normed, bool Gated, int Depth, typename T>
void launch_rows(FewRows<T> product, const Layout& layout, cudaStream_t stream) {
  const auto kernel = few_narrow_kernel<Normed, Gated, Depth, T>;
  const std::size_t most = most_room(kernel);
  const std::int64_t tiles = (product.columns + kTile - 1) / kTile;
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(tiles, product.multiprocessors));
  // As many rows at once as there is room for.
  for (int left = product.rows; left > 0; left -= product.rows) {
    product.rows = left;
    while (product.rows > 1 && layout.bytes<Normed, Gated, Depth>(product.rows) > most) --product.rows;
    launch_in_step(
        kernel,
        {.blocks = blocks, .threads = kThreads, .room = layout.bytes<Normed, Gated, Depth>(product.rows)},
        stream, product, layout);
    product.x += product.rows * product.in;
    product.out += product.rows * product.columns;
    if (product.added != nullptr) product.added += product.rows * product.columns;
  }
}

template <bool Normed, bool Gated, typename T>
void launch(const FewRows<T>& product, cudaStream_t stream) {
  const Layout layout = Layout::of<Gated>(product.in);
  if (two_fit(few_narrow_kernel<Normed, Gated, kDeep, T>, layout.bytes<Normed, Gated, kDeep>(product.rows))) {
    launch_rows<Normed, Gated, kDeep>(product, layout, stream);
  } else {
    launch_rows<Normed, Gated, kShallow>(product, layout, stream);
  }
}

template <bool Normed, bool Gated, typename T>
bool one_row_fits(std::int64_t in) {
  return Layout::of<Gated>(in).template bytes<Normed, Gated, kShallow>(1) <=
         most_room(few_narrow_kernel<Normed, Gated, kShallow, T>);
}

}  // namespace
}  // namespace narrow

template <typename T>
bool few_narrow_fit(std::int64_t in, bool normed) {
  constexpr std::int64_t kLongest = 1 << 20;  // elements, far above what there is room for
  if (in % narrow::kPack != 0 || in > kLongest) return false;
  return normed ? narrow::one_row_fits<true, false, T>(in) && narrow::one_row_fits<true, true, T>(in)
                : narrow::one_row_fits<false, false, T>(in);
}

template <typename T>
void few_narrow_product(const FewRows<T>& product, cudaStream_t stream) {
  if (product.gated) {
    narrow::launch<true, true>(product, stream);
  } else if (product.gain != nullptr) {
    narrow::launch<true, false>(product, stream);
  } else {
    narrow::launch<false, false>(product, stream);
  }
}

template bool few_narrow_fit<__nv_bfloat16>(std::int64_t, bool);
template bool few_narrow_fit<__half>(std::int64_t, bool);
template void few_narrow_product(const FewRows<__nv_bfloat16>&, cudaStream_t);
template void few_narrow_product(const FewRows<__half>&, cudaStream_t);

}  // namespace twobw::models::cuda
