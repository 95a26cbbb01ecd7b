#include "engine/models/few_rows.h"

#include <ATen/Parallel.h>

#include <utility>

#include "engine/models/decode_kernels.h"
#include "engine/models/kernels.h"
#include "engine/models/wide.h"

namespace twobw::models::ops {

using at::Tensor;

namespace {
thread_local bool decoding = false;
}

DecodingScope::DecodingScope() : outer_(std::exchange(decoding, true)) {}

DecodingScope::~DecodingScope() {
  decoding = outer_;
}

bool is_step(const Tensor& x) {
  return decoding && x.dim() == 3 && x.size(1) == 1;
}

Tensor few_rows_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor rows = widened(x), matrix = widened(weight);
  const Tensor constant = bias.defined() ? widened(bias) : Tensor();
  const std::int64_t count = rows.size(0), in = matrix.size(1), out = matrix.size(0);
  Tensor result = at::empty({count, 1, out}, rows.options());
  const float *from = rows.const_data_ptr<float>(), *weights = matrix.const_data_ptr<float>();
  const float* added = bias.defined() ? constant.const_data_ptr<float>() : nullptr;
  float* to = result.mutable_data_ptr<float>();
  at::parallel_for(0, out, 1 + kGrain / in, [&](std::int64_t begin, std::int64_t end) {
    models::few_rows_product(
        {.x = from, .weight = weights, .bias = added, .out = to, .rows = count, .in = in, .columns = out},
        begin, end);
  });
  return result.to(x.scalar_type());
}

}  // namespace twobw::models::ops
