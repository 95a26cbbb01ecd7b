#include "engine/models/ops_cuda/packed_heads.h"

#include "engine/models/ops_cuda/common.h"

namespace twobw::models::ops::cuda {

using at::Tensor;

std::array<Tensor, 3> split_heads(const Tensor& qkv, const Heads& heads) {
  const Tensor apart = qkv.view({qkv.size(0), qkv.size(1), heads.all(), heads.size}).transpose(1, 2);
  return {apart.narrow(1, 0, heads.queries), apart.narrow(1, heads.queries, heads.keys),
          apart.narrow(1, heads.queries + heads.keys, heads.keys)};
}

Tensor join_heads(const Tensor& x) {
  return x.transpose(1, 2).contiguous().view({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

Tensor pack_gradients(const Tensor& grad_q, const Tensor& grad_k, const Tensor& grad_v) {
  const Tensor q = join_heads(grad_q), k = join_heads(grad_k), v = join_heads(grad_v);
  Tensor packed = at::empty({q.size(0), q.size(1), q.size(2) + k.size(2) + v.size(2)}, q.options());
  with_type_of(packed, [&]<typename T>(T) {
    kernels::pack_three<T>(data_of<T>(q), data_of<T>(k), data_of<T>(v), data_of<T>(packed),
                           q.size(0) * q.size(1), width_of(q), width_of(k), current_stream());
  });
  return packed;
}

}  // namespace twobw::models::ops::cuda
