// The two ways to a product of few rows: numbers of 16 bits by tensor cores, of float without.
#pragma once

#include "models/decode_kernels_cuda.h"

namespace twobw::models::cuda {

bool few_floats_fit(std::int64_t rows, std::int64_t in, bool normed);
void few_floats_product(const FewRows<float>& product, cudaStream_t stream);

// T is __nv_bfloat16 or __half.
template <typename T>
bool few_narrow_fit(std::int64_t in, bool normed);
template <typename T>
void few_narrow_product(const FewRows<T>& product, cudaStream_t stream);

}  // namespace twobw::models::cuda
