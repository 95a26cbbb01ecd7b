#include "engine/models/cuda/norm.cuh"

namespace twobw::models::cuda {

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
