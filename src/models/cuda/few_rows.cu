#include "models/cuda/few_rows.cuh"

#include <type_traits>

namespace twobw::models::cuda {

bool& begins_early() {
  thread_local bool begins = true;
  return begins;
}

template <typename T>
bool few_rows_fits(std::int64_t rows, std::int64_t in, bool normed) {
  if (rows < 1 || rows > kMostFewRows) return false;
  if constexpr (std::is_same_v<T, float>) {
    return few_floats_fit(rows, in, normed);
  } else {
    return few_narrow_fit<T>(in, normed);
  }
}

template <typename T>
void few_rows_product(const FewRows<T>& product, cudaStream_t stream) {
  if constexpr (std::is_same_v<T, float>) {
    few_floats_product(product, stream);
  } else {
    few_narrow_product(product, stream);
  }
}

template bool few_rows_fits<float>(std::int64_t, std::int64_t, bool);
template bool few_rows_fits<__nv_bfloat16>(std::int64_t, std::int64_t, bool);
template bool few_rows_fits<__half>(std::int64_t, std::int64_t, bool);
template void few_rows_product(const FewRows<float>&, cudaStream_t);
template void few_rows_product(const FewRows<__nv_bfloat16>&, cudaStream_t);
template void few_rows_product(const FewRows<__half>&, cudaStream_t);

}  // namespace twobw::models::cuda
