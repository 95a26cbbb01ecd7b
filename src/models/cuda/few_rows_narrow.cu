// Tensor cores multiply 8 columns of weights at a time with up to 8 rows, so that 8 rows take what one does.
// What a product waits for is the weights: the first of them are on their way before the kernel before has
// ended, and the next kernel begins when the last have been asked for. (Earlier, its own would take their
// turn.)
#include <algorithm>

#include "models/cuda/early_begin.cuh"
#include "models/cuda/few_rows.cuh"
#include "models/cuda/few_rows_tiles.cuh"
#include "models/cuda/shared_room.h"
#include "models/cuda/step_notes.h"

namespace twobw::models::cuda {
namespace narrow {
namespace {

template <bool Normed, bool Gated, int Depth, typename T>
__global__ void __launch_bounds__(kThreads)
    few_narrow_kernel(const __grid_constant__ FewRows<T> product, Layout layout) {
  extern __shared__ uint4 room[];
  auto* staged = reinterpret_cast<T*>(room + kRing<Depth>);
  auto* sums = reinterpret_cast<float*>(staged + product.rows * layout.stride);
  auto* gains = reinterpret_cast<uint4*>(sums + Layout::sums<Gated>(product.rows));
  const auto thread = static_cast<int>(threadIdx.x);

  if constexpr (Normed) {
    for (int pack = thread; pack < product.in / kPack; pack += kThreads)
      fetch(gains + pack, product.gain + pack * kPack, true, read_once_policy());
    end_group();
  }
  Weights<Gated, Depth, T> weights(product, layout.groups, room);
  await_kernel_before();
  weights.look_for_end();
  const auto sync = [] { __syncthreads(); };
  stage_rows<Normed>(
      product, layout, staged, gains, [] { await_groups<Depth>(); }, sync);
  multiply_tiles<Gated>(product, layout, staged, sums, weights, static_cast<int>(blockIdx.x),
                        static_cast<int>(gridDim.x), sync);
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
    note_in_step(StepKind::Product, product);
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
