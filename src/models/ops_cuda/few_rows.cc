#include "models/ops_cuda/few_rows.h"

#include "device/gpu.h"
#include "models/decode_kernels_cuda.h"
#include "models/few_rows.h"
#include "models/ops_cuda/common.h"

namespace twobw::models::ops::cuda {

using at::Tensor;

bool takes_few_rows(const Tensor& x, const Tensor& weight) {
  if (!is_step(x) || !weight.is_contiguous()) return false;
  const std::int64_t rows = x.size(0), in = x.size(2);
  return is_bfloat16(x) ? kernels::few_rows_fits<__nv_bfloat16>(rows, in)
                        : kernels::few_rows_fits<float>(rows, in);
}

Tensor few_rows_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual) {
  const Tensor rows = x.contiguous(), added = residual.defined() ? residual.contiguous() : Tensor();
  Tensor out = at::empty({rows.size(0), 1, weight.size(0)}, rows.options());
  with_type_of(rows, [&]<typename T>(T) {
    kernels::few_rows_product<T>(
        {.x = data_of<T>(rows),
         .weight = data_of<T>(weight),
         .bias = bias.defined() ? static_cast<const T*>(bias.const_data_ptr()) : nullptr,
         .added = added.defined() ? static_cast<const T*>(added.const_data_ptr()) : nullptr,
         .out = data_of<T>(out),
         .rows = static_cast<int>(rows.size(0)),
         .in = rows.size(2),
         .columns = weight.size(0),
         .multiprocessors = device::gpu_context(current_stream()).product_multiprocessors},
        current_stream());
  });
  return out;
}

}  // namespace twobw::models::ops::cuda
