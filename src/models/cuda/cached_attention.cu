// Attention of one place to those before it. Long because one kernel does all of it, for heads of any size.
#include <algorithm>
#include <bit>

#include "models/cuda/cached_attend.cuh"
#include "models/cuda/early_begin.cuh"
#include "models/cuda/step_notes.h"
#include "models/decode_kernels_cuda.h"

namespace twobw::models::cuda {
namespace cached {
namespace {

// Heads that are small enough for a cluster's parts to lie in one block.
template <typename S>
constexpr bool kHasClusters = S::kEach == 1 && S::kLanes <= 16;

struct Nothing {};
template <typename S, bool Clustered>
using Room = std::conditional_t<Clustered, Joined<S>, Nothing>;

// A block a part. The last block of a head to come puts the parts together, or the first of a cluster.
template <typename S, bool Clustered, typename T>
__global__ void __launch_bounds__(kThreads)
    attend_kernel(const __grid_constant__ CachedAttention<T> attention) {
  __shared__ Scratch<S> scratch;
  __shared__ Room<S, Clustered> joined;
  const Turn turn{.part = static_cast<int>(blockIdx.x),
                  .heads = static_cast<int>(blockIdx.y),
                  .row = static_cast<int>(blockIdx.z)};
  const Part part = Part::of(attention, turn);
  if constexpr (Clustered) arrive_in_cluster();  // begun: the others may write to its shared memory
  if (!part.exists()) {
    if constexpr (Clustered) {
      await_cluster();
      arrive_in_cluster();
      await_cluster();
    }
    return;
  }
  const auto heads = Heads<S>::of(attention, turn);
  const int size = attention.size;
  const std::int64_t of_row = static_cast<std::int64_t>(turn.row) * attention.queries + heads.first;
  attend_part<S>(
      attention, turn, part, static_cast<int>(threadIdx.x), scratch,
      [] {
        await_kernel_before();
        let_next_begin();
      },
      [] {
        __syncthreads();
        if constexpr (Clustered) await_cluster();  // all have begun
      },
      [&](int query, int i, float sum, float highest, float total) {
        if constexpr (Clustered) {
          auto& of_cluster = joined;
          of_cluster.put(&of_cluster.mixes[turn.part][query][i], sum);
          if (i == 0) {
            of_cluster.put(&of_cluster.tops[turn.part][query], highest);
            of_cluster.put(&of_cluster.totals[turn.part][query], total);
          }
        } else {
          put_partial(attention, of_row + query, turn.part, i, sum, highest, total);
        }
      });
  if constexpr (Clustered) {
    arrive_in_cluster();
    await_cluster();
    if (blockIdx.x != 0 || part.parts == 1) return;
    for (int item = static_cast<int>(threadIdx.x); item < heads.count * size; item += kThreads)
      attention.out[of_row * size + item] =
          from_float<T>(joined.mix_of(part.parts, item / size, item % size));
  } else if (part.parts > 1 && is_last_to_come(attention.arrived + of_row, part.parts)) {
    join_parts(attention, part.parts, turn.row, heads.first, heads.count);
  }
}

template <typename S, bool Clustered, typename T>
void launch_parts(const CachedAttention<T>& attention, cudaStream_t stream) {
  const int group = attention.queries / attention.key_heads;
  const int blocks = (group + S::kQueries - 1) / S::kQueries;
  const auto parts = static_cast<unsigned>(attention.splits);
  launch_in_step(attend_kernel<S, Clustered, T>,
                 {.blocks = dim3(parts, static_cast<unsigned>(attention.key_heads * blocks),
                                 static_cast<unsigned>(attention.rows)),
                  .threads = kThreads,
                  .in_cluster = Clustered ? parts : 1},
                 stream, attention);
}

template <typename S, typename T>
void launch_shape(CachedAttention<T> attention, cudaStream_t stream) {
  constexpr bool kInStep = is_in_step<S, T>();
  if constexpr (kHasClusters<S>) {
    if (attention.splits > 1 && attention.places <= kClusterPlaces &&
        is_for_hopper(reinterpret_cast<const void*>(attend_kernel<S, true, T>))) {
      attention.splits =
          static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::min(attention.splits, kClusterParts))));
      launch_parts<S, true>(attention, stream);
      if constexpr (kInStep) note_in_step(StepKind::Attend, attention, kJoinsAsClusters);
      return;
    }
  }
  launch_parts<S, false>(attention, stream);
  if constexpr (kInStep) note_in_step(StepKind::Attend, attention);
}

// Heads of whole packs of 16 bytes, either half of them too.
template <int Q, typename T>
void launch_packs(const CachedAttention<T>& attention, cudaStream_t stream) {
  constexpr int V = kFullPack<T>;
  if (attention.size <= 8 * V) {
    launch_shape<Shape<V, 8, 1, Q>>(attention, stream);
  } else if (attention.size <= 16 * V) {
    launch_shape<Shape<V, 16, 1, Q>>(attention, stream);
  } else if (attention.size <= 32 * V) {
    launch_shape<Shape<V, 32, 1, Q>>(attention, stream);
  } else if (attention.size <= 64 * V) {
    launch_shape<Shape<V, 32, 2, Q>>(attention, stream);
  } else if constexpr (64 * V < kLargestCachedHead) {
    launch_shape<Shape<V, 32, 4, Q>>(attention, stream);
  }
}

// Heads of any size, element by element.
template <typename T>
void launch_elements(const CachedAttention<T>& attention, cudaStream_t stream) {
  if (attention.size <= 2 * kWarp) {
    launch_shape<Shape<1, 32, 2, 1>>(attention, stream);
  } else if (attention.size <= 4 * kWarp) {
    launch_shape<Shape<1, 32, 4, 1>>(attention, stream);
  } else {
    launch_shape<Shape<1, 32, 16, 1>>(attention, stream);
  }
}

}  // namespace
}  // namespace cached

int cached_attention_splits(std::int64_t places) {
  const std::int64_t most = (places + cached::kFewestPlaces - 1) / cached::kFewestPlaces;
  return static_cast<int>(std::clamp<std::int64_t>(most, 1, cached::kMostParts));
}

std::int64_t cached_attention_partials(int rows, int queries, int size, int splits) {
  return static_cast<std::int64_t>(rows) * queries * splits * (size + 2);
}

template <typename T>
void cached_attention(const CachedAttention<T>& attention, cudaStream_t stream) {
  if (attention.size % (2 * kFullPack<T>) != 0) {
    cached::launch_elements(attention, stream);
  } else if (attention.queries == attention.key_heads) {
    cached::launch_packs<1>(attention, stream);
  } else {
    cached::launch_packs<cached::kMostQueries>(attention, stream);
  }
}

template void cached_attention(const CachedAttention<float>&, cudaStream_t);
template void cached_attention(const CachedAttention<__nv_bfloat16>&, cudaStream_t);
template void cached_attention(const CachedAttention<__half>&, cudaStream_t);

}  // namespace twobw::models::cuda
