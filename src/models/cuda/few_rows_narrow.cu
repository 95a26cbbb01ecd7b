// Tensor cores multiply 8 columns of weights at a time with up to 8 rows, so that 8 rows take what one does.
// What a product waits for is the weights: every thread has a ring in shared memory in which 16 packs of
// them are on their way at all times, the first ones before the kernel before has ended.
#include <algorithm>

#include "base/host_device.h"
#include "models/cuda/block.cuh"
#include "models/cuda/early_begin.cuh"
#include "models/cuda/few_rows.cuh"
#include "models/cuda/shared_room.h"

namespace twobw::models::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kTile = 8;    // columns of a block at once; its warps share what their sums go over
constexpr int kChunk = 32;  // elements of a column that four lanes fetch at once, a pack each
constexpr int kPack = 8;
constexpr int kLoads = 4;                           // packs in a group of a thread's
constexpr int kGroups = 4;                          // on their way
constexpr int kRing = kGroups * kLoads * kThreads;  // packs of 16 bytes
constexpr int kItems = kTile * kMostFewRows;        // sums of a tile, at most

// Elements that the sums of a group go over. Gated: half of its packs are of the values' columns.
template <bool Gated>
constexpr int kGroupElements = (Gated ? kLoads / 2 : kLoads) * kChunk;

// What lies in a block's shared memory: the ring, the rows, the warps' sums of two tiles and the gains. Rows
// are apart so that reading 8 of them at once meets all banks, and zero from `in` to the end of a group.
struct Layout {
  int groups, padded, stride;  // the latter in elements

  template <bool Gated>
  static Layout of(std::int64_t in) {
    const auto groups = static_cast<int>((in + kGroupElements<Gated> - 1) / kGroupElements<Gated>);
    const int padded = groups * kGroupElements<Gated>;
    return {.groups = groups, .padded = padded, .stride = padded + kChunk};
  }
  template <bool Gated>
  static TWOBW_HOST_DEVICE int sums(int rows) {
    return 2 * kWarps * (Gated ? 2 : 1) * kTile * rows;
  }
  template <bool Normed, bool Gated>
  std::size_t bytes(int rows) const {
    constexpr std::size_t kElement = 2;
    const auto elements = static_cast<std::size_t>(rows) * stride + (Normed ? padded : 0);
    return kRing * sizeof(uint4) + elements * kElement + sums<Gated>(rows) * sizeof(float);
  }
};

__device__ __forceinline__ std::uint64_t read_once_policy() {
  std::uint64_t policy = 0;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// A pack to shared memory, or zeros.
__device__ __forceinline__ void fetch(uint4* to, const void* from, bool exists, std::uint64_t policy) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(address),
               "l"(__cvta_generic_to_global(from)), "r"(exists ? 16 : 0), "l"(policy)
               : "memory");
}
__device__ __forceinline__ void end_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Until all groups of this thread but the last `Last` are there.
template <int Last>
__device__ __forceinline__ void await_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Last) : "memory");
}

__device__ __forceinline__ uint4 read_shared(const void* from) {
  uint4 pack;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(pack.x), "=r"(pack.y), "=r"(pack.z), "=r"(pack.w)
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(from)))
               : "memory");
  return pack;
}

// sum [16 columns, 8 rows] += a [16, 16 elements] b [16 elements, 8], as mma lays them out over a warp.
__device__ __forceinline__ void multiply(float (&sum)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                                         unsigned b0, unsigned b1, __nv_bfloat16) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void multiply(float (&sum)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                                         unsigned b0, unsigned b1, __half) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// The weights of a warp, in the order in which it takes them: every kWarps-th group of a tile, then those of
// the block's next tile. A lane has four columns' neighbours beside it, and its own column is lane / 4.
template <bool Gated, typename T>
class Weights {
 public:
  __device__ Weights(const FewRows<T>& product, int groups, uint4* ring)
      : product_(product),
        groups_(groups),
        ring_(ring + threadIdx.x),
        policy_(read_once_policy()),
        column_(static_cast<std::int64_t>(blockIdx.x) * kTile + threadIdx.x % kWarp / 4),
        group_(static_cast<int>(threadIdx.x) / kWarp) {
    if (group_ >= groups_) column_ = product.columns;
  }

  // The next group, which takes this place in the ring.
  __device__ void fetch_next(int place) {
    const bool exists = column_ < product_.columns;
    const T* from = product_.weight + (exists ? column_ * product_.in : 0);
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      const int chunk = Gated ? load / 2 : load;
      const int k =
          group_ * kGroupElements<Gated> + chunk * kChunk + static_cast<int>(threadIdx.x % 4) * kPack;
      const bool has = exists && k < product_.in;
      const std::int64_t to_values = Gated && load % 2 == 1 ? product_.columns * product_.in : 0;
      fetch(ring_ + (place * kLoads + load) * kThreads, from + (has ? k + to_values : 0), has, policy_);
    }
    end_group();
    group_ += kWarps;
    if (group_ < groups_) return;
    group_ = static_cast<int>(threadIdx.x) / kWarp;
    column_ += static_cast<std::int64_t>(gridDim.x) * kTile;
  }

  // Adds the products of the group at this place, which is there, with the rows' elements `x`.
  __device__ void multiply_with(const T* x, int place, float (&sum)[2][4]) const {
    constexpr int kChunks = Gated ? kLoads / 2 : kLoads;
    uint4 a[kLoads], b[kChunks];
#pragma unroll
    for (int load = 0; load < kLoads; ++load)
      a[load] = read_shared(ring_ + (place * kLoads + load) * kThreads);
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) b[chunk] = read_shared(x + chunk * kChunk);
    __syncwarp();  // all are asked for before the first is used
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const uint4& first = a[chunk * kLoads / kChunks];
      const uint4 second = Gated ? a[chunk * kLoads / kChunks + 1] : make_uint4(0, 0, 0, 0);
      multiply(sum[chunk % 2], first.x, second.x, first.y, second.y, b[chunk].x, b[chunk].y, T{});
      multiply(sum[chunk % 2], first.z, second.z, first.w, second.w, b[chunk].z, b[chunk].w, T{});
    }
  }

 private:
  const FewRows<T>& product_;
  int groups_;
  uint4* ring_;
  std::uint64_t policy_;
  std::int64_t column_;
  int group_;
};

template <typename T>
__device__ __forceinline__ void unpack(const uint4& raw, float (&to)[kPack]) {
  const auto pack = *reinterpret_cast<const Pack<T, kPack>*>(&raw);
#pragma unroll
  for (int i = 0; i < kPack; ++i) to[i] = to_float(pack.values[i]);
}

// The block's own copy of the rows, normed where there are gains: this thread's are on their way to `gains`,
// before the ring's groups.
template <bool Normed, typename T>
__device__ __forceinline__ void stage_rows(const FewRows<T>& product, const Layout& layout, T* staged,
                                           const uint4* gains) {
  __shared__ float sums[kMostFewRows][kWarps];
  const auto thread = static_cast<int>(threadIdx.x);
  const auto packs = static_cast<int>(product.in / kPack);
  const auto place = [&](int row, int pack) {
    return reinterpret_cast<uint4*>(staged + row * layout.stride + pack * kPack);
  };
  float squares[kMostFewRows] = {};
  for (int pack = thread; pack < layout.padded / kPack; pack += kThreads) {
    uint4 raw[kMostFewRows];
#pragma unroll
    for (int row = 0; row < kMostFewRows; ++row) {
      raw[row] = make_uint4(0, 0, 0, 0);
      if (row < product.rows && pack < packs)
        raw[row] = __ldcg(reinterpret_cast<const uint4*>(product.x + row * product.in) + pack);
    }
#pragma unroll
    for (int row = 0; row < kMostFewRows; ++row) {
      if (row >= product.rows) continue;
      *place(row, pack) = raw[row];
      if constexpr (Normed) {
        float x[kPack];
        unpack<T>(raw[row], x);
#pragma unroll
        for (int i = 0; i < kPack; ++i) squares[row] += x[i] * x[i];
      }
    }
  }
  if constexpr (Normed) {
#pragma unroll
    for (int row = 0; row < kMostFewRows; ++row) {
      if (row >= product.rows) continue;
      const float sum = warp_sum(squares[row]);
      if (thread % kWarp == 0) sums[row][thread / kWarp] = sum;
    }
    await_groups<kGroups>();
    __syncthreads();
    for (int row = 0; row < product.rows; ++row) {
      float sum = 0;
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) sum += sums[row][warp];
      const float scale = rsqrtf(sum / static_cast<float>(product.in) + product.eps);
      for (int pack = thread; pack < packs; pack += kThreads) {
        float x[kPack], gain[kPack];
        unpack<T>(*place(row, pack), x);
        unpack<T>(gains[pack], gain);
#pragma unroll
        for (int i = 0; i < kPack; ++i) x[i] *= scale * gain[i];
        store<kPack>(x, reinterpret_cast<T*>(place(row, pack)));
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

template <bool Normed, bool Gated, typename T>
__global__ void __launch_bounds__(kThreads)
    few_narrow_kernel(const __grid_constant__ FewRows<T> product, Layout layout) {
  extern __shared__ uint4 room[];
  auto* staged = reinterpret_cast<T*>(room + kRing);
  auto* sums = reinterpret_cast<float*>(staged + product.rows * layout.stride);
  auto* gains = reinterpret_cast<uint4*>(sums + Layout::sums<Gated>(product.rows));
  const auto thread = static_cast<int>(threadIdx.x), warp = thread / kWarp, lane = thread % kWarp;
  const int column = lane / 4, rest = lane % 4;

  let_next_begin();
  if constexpr (Normed) {
    for (int pack = thread; pack < product.in / kPack; pack += kThreads)
      fetch(gains + pack, product.gain + pack * kPack, true, read_once_policy());
    end_group();
  }
  Weights<Gated, T> weights(product, layout.groups, room);
#pragma unroll
  for (int place = 0; place < kGroups; ++place) weights.fetch_next(place);
  await_kernel_before();
  stage_rows<Normed>(product, layout, staged, gains);

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
      await_groups<kGroups - 1>();
      weights.multiply_with(x + group * kGroupElements<Gated>, place, sum);
      weights.fetch_next(place);
      place = (place + 1) % kGroups;
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

template <bool Normed, bool Gated, typename T>
void launch(FewRows<T> product, cudaStream_t stream) {
  const auto kernel = few_narrow_kernel<Normed, Gated, T>;
  const Layout layout = Layout::of<Gated>(product.in);
  const std::size_t most = most_room(kernel);
  const std::int64_t tiles = (product.columns + kTile - 1) / kTile;
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(tiles, product.multiprocessors));
  // As many rows at once as there is room for.
  for (int left = product.rows; left > 0; left -= product.rows) {
    product.rows = left;
    while (product.rows > 1 && layout.bytes<Normed, Gated>(product.rows) > most) --product.rows;
    launch_in_step(kernel, blocks, kThreads, layout.bytes<Normed, Gated>(product.rows), stream, product,
                   layout);
    product.x += product.rows * product.in;
    product.out += product.rows * product.columns;
    if (product.added != nullptr) product.added += product.rows * product.columns;
  }
}

template <bool Normed, bool Gated, typename T>
bool one_row_fits(std::int64_t in) {
  return Layout::of<Gated>(in).template bytes<Normed, Gated>(1) <=
         most_room(few_narrow_kernel<Normed, Gated, T>);
}

}  // namespace

template <typename T>
bool few_narrow_fit(std::int64_t in, bool normed) {
  constexpr std::int64_t kLongest = 1 << 20;  // elements, far above what there is room for
  if (in % kPack != 0 || in > kLongest) return false;
  return normed ? one_row_fits<true, false, T>(in) && one_row_fits<true, true, T>(in)
                : one_row_fits<false, false, T>(in);
}

template <typename T>
void few_narrow_product(const FewRows<T>& product, cudaStream_t stream) {
  if (product.gated) {
    launch<true, true>(product, stream);
  } else if (product.gain != nullptr) {
    launch<true, false>(product, stream);
  } else {
    launch<false, false>(product, stream);
  }
}

template bool few_narrow_fit<__nv_bfloat16>(std::int64_t, bool);
template bool few_narrow_fit<__half>(std::int64_t, bool);
template void few_narrow_product(const FewRows<__nv_bfloat16>&, cudaStream_t);
template void few_narrow_product(const FewRows<__half>&, cudaStream_t);

}  // namespace twobw::models::cuda
