// Dropout, alone or onto a residual stream.
#include "engine/models/ops_cuda.h"
#include "engine/models/ops_cuda/common.h"
#include "engine/models/ops_cuda/mask.h"

namespace twobw::models::ops::cuda {

using at::Tensor;

kernels::Mask mask_on(const Tensor& x, const DropoutMask& mask) {
  TWOBW_ASSERT(mask.key_on_gpu.defined() && mask.key_on_gpu.device() == x.device(),
               "dropout on a GPU by a pass whose key is not there");
  return {.key = reinterpret_cast<const std::uint64_t*>(mask.key_on_gpu.const_data_ptr<std::int64_t>()),
          .site = mask.site,
          .rate = dropout_rate(mask.rate)};
}

Tensor drop(const Tensor& x, const Tensor& residual, const DropoutMask& mask, bool in_place) {
  const Tensor from = x.contiguous(), onto = residual.defined() ? residual.contiguous() : Tensor();
  Tensor out = in_place ? from : at::empty(from.sizes(), from.options());
  with_type_of(from, [&]<typename T>(T) {
    kernels::drop<T>({.x = data_of<T>(from),
                      .residual = onto.defined() ? data_of<T>(onto) : nullptr,
                      .out = data_of<T>(out),
                      .mask = mask_on(from, mask),
                      .rows = from.numel() / from.size(-1),
                      .n1 = from.dim() > 1 ? from.size(-2) : 1,
                      .n2 = from.dim() > 2 ? from.size(-3) : 1,
                      .width = width_of(from)},
                     current_stream());
  });
  return out;
}

}  // namespace twobw::models::ops::cuda
