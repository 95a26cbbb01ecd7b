#include "engine/models/cuda/norm.cuh"

namespace twobw::models::cuda {

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

}  // namespace twobw::models::cuda
