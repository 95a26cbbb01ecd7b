#include "models/ops_cuda/few_rows.h"

#include "device/gpu.h"
#include "models/decode_kernels_cuda.h"
#include "models/few_rows.h"
#include "models/ops_cuda.h"
#include "models/ops_cuda/common.h"

namespace twobw::models::ops::cuda {

using at::Tensor;

namespace {

bool step_fits(const Tensor& x, const Tensor& weight, bool normed) {
  if (!is_step(x) || !weight.is_contiguous()) return false;
  const std::int64_t rows = x.size(0), in = x.size(2);
  bool fits = false;
  with_type_of(x, [&]<typename T>(T) { fits = kernels::few_rows_fits<T>(rows, in, normed); });
  return fits;
}

template <typename T>
const T* given_data(const Tensor& x) {
  return x.defined() ? static_cast<const T*>(x.const_data_ptr()) : nullptr;
}

}  // namespace

bool takes_few_rows(const Tensor& x, const Tensor& weight) {
  return step_fits(x, weight, false);
}

Tensor few_rows_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual) {
  const Tensor rows = x.contiguous(), added = residual.defined() ? residual.contiguous() : Tensor();
  Tensor out = at::empty({rows.size(0), 1, weight.size(0)}, rows.options());
  with_type_of(rows, [&]<typename T>(T) {
    kernels::few_rows_product<T>(
        {.x = data_of<T>(rows),
         .weight = data_of<T>(weight),
         .bias = given_data<T>(bias),
         .added = given_data<T>(added),
         .out = data_of<T>(out),
         .rows = static_cast<int>(rows.size(0)),
         .in = rows.size(2),
         .columns = weight.size(0),
         .multiprocessors = device::gpu_context(current_stream()).product_multiprocessors},
        current_stream());
  });
  return out;
}

Tensor normed_linear(const Tensor& x, const Tensor& gain, double eps, const Tensor& weight,
                     const Tensor& bias, bool gated) {
  if (!step_fits(x, weight, true) || (gated && bias.defined())) return {};
  const Tensor rows = x.contiguous();
  const std::int64_t columns = gated ? weight.size(0) / 2 : weight.size(0);
  Tensor out = at::empty({rows.size(0), 1, columns}, rows.options());
  with_type_of(rows, [&]<typename T>(T) {
    kernels::few_rows_product<T>(
        {.x = data_of<T>(rows),
         .gain = data_of<T>(gain),
         .eps = static_cast<float>(eps),
         .weight = data_of<T>(weight),
         .gated = gated,
         .bias = given_data<T>(bias),
         .out = data_of<T>(out),
         .rows = static_cast<int>(rows.size(0)),
         .in = rows.size(2),
         .columns = columns,
         .multiprocessors = device::gpu_context(current_stream()).product_multiprocessors},
        current_stream());
  });
  return out;
}

}  // namespace twobw::models::ops::cuda
