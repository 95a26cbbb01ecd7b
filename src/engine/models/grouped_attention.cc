// Causal attention in which heads of queries share keys and values, on CPUs by LibTorch's flash attention:
// once for the first queries of every group, once for the second, so that keys and values are never copied.
// Where sequences hold several documents, once for each of them: nothing is computed between documents, and
// each has the numbers that it would have alone.
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <vector>

#include "engine/models/documents.h"
#include "engine/models/ops.h"
#include "engine/models/ops_cuda.h"

namespace twobw::models::ops {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// Packed queries, keys and values [b, T, all size] as they lie there, or what has their shape.
class PackedHeads {
 public:
  PackedHeads(const Tensor& qkv, const Heads& heads)
      : heads_(heads), apart_(qkv.view({qkv.size(0), qkv.size(1), heads.all(), heads.size})) {}

  // [b, keys, T, size]: of every group the query `which`.
  Tensor queries(std::int64_t which) const {
    return of_groups(apart_.narrow(2, 0, heads_.queries), heads_, which);
  }
  Tensor keys() const { return apart_.narrow(2, heads_.queries, heads_.keys).transpose(1, 2); }
  Tensor values() const {
    return apart_.narrow(2, heads_.queries + heads_.keys, heads_.keys).transpose(1, 2);
  }

  // The same of x [b, T, queries, size].
  static Tensor of_groups(const Tensor& x, const Heads& heads, std::int64_t which) {
    return x.unflatten(2, {heads.keys, heads.queries / heads.keys}).select(3, which).transpose(1, 2);
  }

 private:
  Heads heads_;
  Tensor apart_;
};

struct GroupedAttentionFunction : torch::autograd::Function<GroupedAttentionFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& qkv, const std::optional<Tensor>& positions,
                        std::int64_t queries, std::int64_t keys, std::int64_t size) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Heads heads = heads_of(queries, keys, size);
    const Tensor input = qkv.contiguous();
    const PackedHeads packed(input, heads);
    const Tensor mixed = at::empty({input.size(0), input.size(1), queries, size}, input.options());
    std::vector<Tensor> saved = {input, mixed, positions.value_or(Tensor())};
    for (const Stretch& stretch : stretches_of(saved[2], input.size(0), input.size(1))) {
      const Tensor k = stretch.of(packed.keys()), v = stretch.of(packed.values());
      for (std::int64_t which = 0; which < queries / keys; ++which) {
        const auto [out, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(
            stretch.of(packed.queries(which)), k, v, /*dropout_p=*/0.0, /*is_causal=*/true);
        stretch.of(PackedHeads::of_groups(mixed, heads, which)).copy_(out);
        saved.push_back(logsumexp);
      }
    }
    context->save_for_backward(saved);
    context->saved_data["queries"] = queries;
    context->saved_data["keys"] = keys;
    return mixed.view({input.size(0), input.size(1), queries * size});
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto saved = context->get_saved_variables();
    const Tensor &input = saved[0], &mixed = saved[1];
    const Heads heads =
        heads_of(context->saved_data["queries"].toInt(), context->saved_data["keys"].toInt(), mixed.size(3));
    const Tensor grad_mixed = grads[0].contiguous().view(mixed.sizes());
    // Single precision: the gradients of a key come from several queries.
    const Tensor grad_qkv = at::empty(input.sizes(), input.options().dtype(at::kFloat));
    const PackedHeads packed(input, heads), gradient(grad_qkv, heads);
    auto logsumexp = saved.begin() + 3;
    for (const Stretch& stretch : stretches_of(saved[2], input.size(0), input.size(1))) {
      const Tensor k = stretch.of(packed.keys()), v = stretch.of(packed.values());
      for (std::int64_t which = 0; which < heads.queries / heads.keys; ++which, ++logsumexp) {
        const auto [grad_queries, grad_keys, grad_values] =
            at::_scaled_dot_product_flash_attention_for_cpu_backward(
                stretch.of(PackedHeads::of_groups(grad_mixed, heads, which)),
                stretch.of(packed.queries(which)), k, v,
                stretch.of(PackedHeads::of_groups(mixed, heads, which)), *logsumexp,
                /*dropout_p=*/0.0, /*is_causal=*/true);
        stretch.of(gradient.queries(which)).copy_(grad_queries);
        add_or_set(stretch.of(gradient.keys()), grad_keys, which > 0);
        add_or_set(stretch.of(gradient.values()), grad_values, which > 0);
      }
    }
    return {grad_qkv.to(input.scalar_type()), Tensor(), Tensor(), Tensor(), Tensor()};
  }

  static Heads heads_of(std::int64_t queries, std::int64_t keys, std::int64_t size) {
    return {
        .queries = static_cast<int>(queries), .keys = static_cast<int>(keys), .size = static_cast<int>(size)};
  }

  static void add_or_set(const Tensor& to, const Tensor& x, bool add) {
    if (add)
      to.add_(x);
    else
      to.copy_(x);
  }
};

}  // namespace

Tensor grouped_attention(const Tensor& qkv, const Heads& heads, const Tensor& positions) {
  if (qkv.is_cuda()) return cuda::causal_attention(qkv, heads, positions);
  return GroupedAttentionFunction::apply(qkv, positions.defined() ? std::optional(positions) : std::nullopt,
                                         heads.queries, heads.keys, heads.size);
}

}  // namespace twobw::models::ops
