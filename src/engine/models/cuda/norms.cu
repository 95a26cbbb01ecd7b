// The layer norm and the RMS norm: the choice of a kernel by the width of rows.
#include "engine/models/cuda/norm.cuh"

namespace twobw::models::cuda {
namespace norms {

// Calls back with the least Units that hold a row of `width`, kLane * Units elements in a lane; false if none does.
template <int Most, int Lanes = kWarp, typename F>
bool with_units(int width, const F& call) {
  const int units = (width + Lanes * kLane - 1) / (Lanes * kLane);
  const auto use = [&]<int Units>() {
    if constexpr (Units <= Most) call.template operator()<Units>();
  };
  if (units > Most) return false;
  if (units <= 1)
    use.template operator()<1>();
  else if (units <= 2)
    use.template operator()<2>();
  else if (units <= 3)
    use.template operator()<3>();
  else if (units <= 4)
    use.template operator()<4>();
  else if (units <= 5)
    use.template operator()<5>();
  else if (units <= 6)
    use.template operator()<6>();
  else if (units <= 8)
    use.template operator()<8>();
  else
    use.template operator()<16>();
  return true;
}

// Number of floats for the sums over the chunks of rows.
template <bool Centered>
std::int64_t partials(std::int64_t rows, int width) {
  return (Centered ? 2 : 1) * chunks_of(rows) * width;
}

template <bool Centered, typename T>
void forward(const LayerNorm<T>& norm, cudaStream_t stream) {
  constexpr int N = kFullPack<T>;
  const auto blocks = static_cast<unsigned>((norm.rows + kWarps - 1) / kWarps);  // of a row a warp
  if (!aligned_for(norm.width, N)) {
    any_width_forward_kernel<Centered, 1><<<blocks, kThreads, 0, stream>>>(norm);
    return;
  }
  const auto launch = [&]<int Units, int Lanes>(unsigned launched) {
    constexpr int packs = Units * kLane / N;
    if (norm.residual != nullptr)
      forward_kernel<Centered, N, packs, true, Lanes><<<launched, kThreads, 0, stream>>>(norm);
    else
      forward_kernel<Centered, N, packs, false, Lanes><<<launched, kThreads, 0, stream>>>(norm);
  };
  const bool fits_a_warp = with_units<kForwardUnits>(
      norm.width, [&]<int Units>() { launch.template operator()<Units, kWarp>(blocks); });
  const bool fits_a_block = fits_a_warp || with_units<kBlockUnits, kThreads>(norm.width, [&]<int Units>() {
                              launch.template operator()<Units, kThreads>(static_cast<unsigned>(norm.rows));
                            });
  if (!fits_a_block) any_width_forward_kernel<Centered, N><<<blocks, kThreads, 0, stream>>>(norm);
}

template <bool Centered, typename T>
void backward(const LayerNormBackward<T>& norm, cudaStream_t stream) {
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
    with_units<kBackwardUnits>(norm.width, [&]<int Units>() { launch.template operator()<Units, kWarp>(); }) ||
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

std::int64_t layer_norm_partials(std::int64_t rows, int width) {
  return norms::partials<true>(rows, width);
}

template <typename T>
void layer_norm_forward(const LayerNorm<T>& norm, cudaStream_t stream) {
  norms::forward<true>(norm, stream);
}

template <typename T>
void layer_norm_backward(const LayerNormBackward<T>& norm, cudaStream_t stream) {
  norms::backward<true>(norm, stream);
}

template void layer_norm_forward(const LayerNorm<float>&, cudaStream_t);
template void layer_norm_forward(const LayerNorm<__nv_bfloat16>&, cudaStream_t);
template void layer_norm_forward(const LayerNorm<__half>&, cudaStream_t);
template void layer_norm_backward(const LayerNormBackward<float>&, cudaStream_t);
template void layer_norm_backward(const LayerNormBackward<__nv_bfloat16>&, cudaStream_t);
template void layer_norm_backward(const LayerNormBackward<__half>&, cudaStream_t);

std::int64_t rms_norm_partials(std::int64_t rows, int width) {
  return norms::partials<false>(rows, width);
}

template <typename T>
void rms_norm_forward(const RmsNorm<T>& norm, cudaStream_t stream) {
  norms::forward<false>(LayerNorm<T>{.x = norm.x,
                                     .residual = norm.residual,
                                     .weight = norm.weight,
                                     .sum = norm.sum,
                                     .out = norm.out,
                                     .deviation = norm.scale,
                                     .rows = norm.rows,
                                     .width = norm.width,
                                     .eps = norm.eps},
                        stream);
}

template <typename T>
void rms_norm_backward(const RmsNormBackward<T>& norm, cudaStream_t stream) {
  norms::backward<false>(LayerNormBackward<T>{.grad_out = norm.grad_out,
                                              .grad_stream = norm.grad_stream,
                                              .sum = norm.sum,
                                              .weight = norm.weight,
                                              .deviation = norm.scale,
                                              .grad_x = norm.grad_x,
                                              .grad_weight = norm.grad_weight,
                                              .partial = norm.partial,
                                              .rows = norm.rows,
                                              .width = norm.width},
                         stream);
}

template void rms_norm_forward(const RmsNorm<float>&, cudaStream_t);
template void rms_norm_forward(const RmsNorm<__nv_bfloat16>&, cudaStream_t);
template void rms_norm_forward(const RmsNorm<__half>&, cudaStream_t);
template void rms_norm_backward(const RmsNormBackward<float>&, cudaStream_t);
template void rms_norm_backward(const RmsNormBackward<__nv_bfloat16>&, cudaStream_t);
template void rms_norm_backward(const RmsNormBackward<__half>&, cudaStream_t);

}  // namespace twobw::models::cuda
