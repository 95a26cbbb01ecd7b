// The layer norm and the RMS norm: the choice of a kernel by the width of rows.
#include <utility>

#include "engine/models/cuda/norm.cuh"

namespace twobw::models::cuda {
namespace norms {

// Calls back with the least Units that hold a row of `width`, kLane * Units elements in a lane; false if none
// does.
template <int Most, int Lanes = kWarp, typename F>
bool with_units(int width, const F& call) {
  const int units = (width + Lanes * kLane - 1) / (Lanes * kLane);
  bool called = false;
  const auto try_units = [&]<int Units>() {
    if constexpr (Units <= Most) {
      if (called || units > Units) return;
      call.template operator()<Units>();
      called = true;
    }
  };
  [&]<int... Units>(std::integer_sequence<int, Units...>) {
    (try_units.template operator()<Units>(), ...);
  }
  (std::integer_sequence<int, 1, 2, 3, 4, 5, 6, 8, 16>());
  return called;
}

template <bool Centered, typename T>
void forward(const Norm<T>& norm, cudaStream_t stream) {
  constexpr int N = kFullPack<T>;
  const auto blocks = static_cast<unsigned>((norm.rows + kWarps - 1) / kWarps);  // of a row a warp
  if (!aligned_for(norm.width, N)) {
    any_width_forward_kernel<Centered, 1><<<blocks, kThreads, 0, stream>>>(norm);
    return;
  }
  const auto launch = [&]<int Units, int Lanes>(unsigned launched) {
    constexpr int packs = Units * kLane / N;
    forward_kernel<Centered, N, packs, Lanes><<<launched, kThreads, 0, stream>>>(norm);
  };
  const bool fits_a_warp = with_units<kForwardUnits>(
      norm.width, [&]<int Units>() { launch.template operator()<Units, kWarp>(blocks); });
  const bool fits_a_block = fits_a_warp || with_units<kBlockUnits, kThreads>(norm.width, [&]<int Units>() {
                              launch.template operator()<Units, kThreads>(static_cast<unsigned>(norm.rows));
                            });
  if (!fits_a_block) any_width_forward_kernel<Centered, N><<<blocks, kThreads, 0, stream>>>(norm);
}

template <bool Centered, typename T>
void backward(const NormBackward<T>& norm, cudaStream_t stream) {
  constexpr int N = kFullPack<T>;
  constexpr int sums = Centered ? 2 : 1;
  const auto chunks = static_cast<unsigned>(chunks_of(norm.rows));
  if (!aligned_for(norm.width, N)) {
    any_width_backward_kernel<Centered, 1><<<chunks, kThreads, 0, stream>>>(norm);
  } else {
    bool launched = false;
    const auto launch = [&]<int Units, int Lanes>() {
      constexpr int packs = Units * kLane / N;
      constexpr std::size_t room = kRowRoom<packs> * kRingRows<packs>;
      const auto kernel = backward_kernel<Centered, N, packs, Lanes, T>;
      launched = make_room(kernel, room);
      if (launched) kernel<<<chunks, kThreads, room, stream>>>(norm);
    };
    with_units<kBackwardUnits>(norm.width,
                               [&]<int Units>() { launch.template operator()<Units, kWarp>(); }) ||
        with_units<kBlockUnits, kThreads>(
            norm.width, [&]<int Units>() { launch.template operator()<Units, kThreads>(); });
    if (!launched) any_width_backward_kernel<Centered, N><<<chunks, kThreads, 0, stream>>>(norm);
  }
  const std::int64_t size = static_cast<std::int64_t>(chunks) * norm.width;
  add_partials(
      {.partial = {norm.partial, norm.partial + size}, .gradient = {norm.grad_weight, norm.grad_bias}}, sums,
      static_cast<int>(chunks), norm.width, stream);
}

}  // namespace norms

std::int64_t norm_partials(std::int64_t rows, int width, bool has_bias) {
  return (has_bias ? 2 : 1) * norms::chunks_of(rows) * width;
}

template <typename T>
void norm_forward(const Norm<T>& norm, cudaStream_t stream) {
  if (norm.bias != nullptr)
    norms::forward<true>(norm, stream);
  else
    norms::forward<false>(norm, stream);
}

template <typename T>
void norm_backward(const NormBackward<T>& norm, cudaStream_t stream) {
  if (norm.grad_bias != nullptr)
    norms::backward<true>(norm, stream);
  else
    norms::backward<false>(norm, stream);
}

#define TWOBW_KERNELS(T)                                    \
  template void norm_forward(const Norm<T>&, cudaStream_t); \
  template void norm_backward(const NormBackward<T>&, cudaStream_t);
TWOBW_FOR_ELEMENT_TYPES(TWOBW_KERNELS)
#undef TWOBW_KERNELS

}  // namespace twobw::models::cuda
