// Queries and keys turned by the angles of their places.
#include "core/base/error.h"
#include "engine/models/ops_cuda.h"
#include "engine/models/ops_cuda/common.h"

namespace twobw::models::ops::cuda {

using at::Tensor;

Tensor rotated(const Tensor& qkv, const Heads& heads, const Tensor& angles, int sign) {
  const Tensor x = qkv.contiguous();
  TWOBW_ASSERT(x.size(1) <= angles.size(0) && x.size(2) == std::int64_t{heads.all()} * heads.size,
               "angles of {} places and heads of {} for {} tokens of {}", angles.size(0), heads.size,
               x.size(1), x.size(2));
  Tensor out = at::empty(x.sizes(), x.options());
  with_type_of(x, [&]<typename T>(T) {
    const kernels::Rotary<T> rotary{.x = data_of<T>(x),
                                    .out = data_of<T>(out),
                                    .table = data_of<float>(angles),
                                    .batch = x.size(0),
                                    .length = x.size(1),
                                    .heads = heads.queries,
                                    .kv_heads = heads.keys,
                                    .head = heads.size};
    if (sign > 0)
      kernels::rotary_forward(rotary, current_stream());
    else
      kernels::rotary_backward(rotary, current_stream());
  });
  return out;
}

}  // namespace twobw::models::ops::cuda
