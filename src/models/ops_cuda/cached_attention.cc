// Attention of a decoder's step to the keys and values that are kept.
#include "base/error.h"
#include "models/decode_kernels_cuda.h"
#include "models/ops_cuda.h"
#include "models/ops_cuda/common.h"

namespace twobw::models::ops::cuda {

using at::Tensor;

Tensor cached_attention(const Tensor& qkv, const Heads& heads, const Tensor& angles, const Tensor& keys,
                        const Tensor& values, const Tensor& arrived, const Tensor& seen) {
  TWOBW_ASSERT(heads.size <= kernels::kLargestCachedHead, "heads of {} in a step on a GPU", heads.size);
  const int rows = static_cast<int>(qkv.size(0));
  const std::int64_t places = keys.size(2);
  TWOBW_ASSERT(!angles.defined() || (angles.size(0) >= places && angles.size(1) == heads.size),
               "angles of {} places for {}", angles.size(0), places);
  const int splits = kernels::cached_attention_splits(places);
  const Tensor packed = qkv.contiguous();
  const Tensor partial =
      floats(kernels::cached_attention_partials(rows, heads.queries, heads.size, splits), packed);
  Tensor out = at::empty({rows, 1, std::int64_t{heads.queries} * heads.size}, packed.options());
  with_type_of(packed, [&]<typename T>(T) {
    kernels::cached_attention<T>({.qkv = data_of<T>(packed),
                                  .keys = data_of<T>(keys),
                                  .values = data_of<T>(values),
                                  .seen = seen.const_data_ptr<std::int64_t>(),
                                  .angles = angles.defined() ? data_of<float>(angles) : nullptr,
                                  .out = data_of<T>(out),
                                  .partial = data_of<float>(partial),
                                  .arrived = arrived.mutable_data_ptr<int>(),
                                  .rows = rows,
                                  .queries = heads.queries,
                                  .key_heads = heads.keys,
                                  .size = heads.size,
                                  .splits = splits,
                                  .places = places},
                                 current_stream());
  });
  return out;
}

}  // namespace twobw::models::ops::cuda
