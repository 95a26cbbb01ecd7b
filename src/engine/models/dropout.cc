#include "engine/models/dropout.h"

#include <ATen/Parallel.h>

#include <optional>

#include "core/base/error.h"
#include "engine/models/kernels.h"
#include "engine/models/ops.h"
#include "engine/models/ops_cuda.h"

namespace twobw::models {

DropoutMask DropoutMask::of(const MicrobatchContext& pass, double rate, int site) {
  return {.rate = rate,
          .site = dropout_site(pass.layer, site),
          .key = pass.dropout_key(),
          .key_on_gpu = pass.key_on_gpu};
}

// The key on a GPU is not a saved variable: with graphs, every microbatch overwrites it.
void DropoutMask::save(AutogradContext& context) const {
  context.saved_data["dropout_rate"] = rate;
  context.saved_data["dropout_site"] = static_cast<std::int64_t>(site);
  context.saved_data["dropout_key"] = static_cast<std::int64_t>(key);
  context.saved_data["dropout_key_on_gpu"] = key_on_gpu;
}

DropoutMask DropoutMask::saved(AutogradContext& context) {
  return {.rate = context.saved_data["dropout_rate"].toDouble(),
          .site = static_cast<std::uint64_t>(context.saved_data["dropout_site"].toInt()),
          .key = static_cast<std::uint64_t>(context.saved_data["dropout_key"].toInt()),
          .key_on_gpu = context.saved_data["dropout_key_on_gpu"].toTensor()};
}

namespace ops {
namespace {

struct DropoutFunction : torch::autograd::Function<DropoutFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const std::optional<Tensor>& residual,
                        const DropoutMask& mask) {
    at::AutoDispatchBelowADInplaceOrView below;
    mask.save(*context);
    context->saved_data["residual"] = residual.has_value();
    return drop(x, residual.value_or(Tensor()), mask);
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const Tensor grad_x = drop(grads[0], {}, DropoutMask::saved(*context));
    return {grad_x, context->saved_data["residual"].toBool() ? grads[0] : Tensor(), Tensor()};
  }
};

}  // namespace

Tensor drop(const Tensor& x, const Tensor& residual, const DropoutMask& mask, bool in_place) {
  TWOBW_ASSERT(x.dim() >= 1 && x.dim() <= 4, "dropout of a tensor of {} dimensions", x.dim());
  if (x.is_cuda()) return cuda::drop(x, residual, mask, in_place);
  const Tensor from = widened(x), onto = residual.defined() ? widened(residual) : Tensor();
  Tensor out = in_place ? from : at::empty_like(from);
  const RowsOfMask rows{.key = mask_key(mask.key, mask.site),
                        .rate = dropout_rate(mask.rate),
                        .n1 = x.dim() > 1 ? x.size(-2) : 1,
                        .n2 = x.dim() > 2 ? x.size(-3) : 1,
                        .width = x.size(-1)};
  const float* source = from.const_data_ptr<float>();
  const float* added = onto.defined() ? onto.const_data_ptr<float>() : nullptr;
  float* target = out.mutable_data_ptr<float>();
  at::parallel_for(
      0, x.numel() / rows.width, 1 + kGrain / rows.width,
      [&](std::int64_t begin, std::int64_t end) { drop_rows(rows, source, added, target, begin, end); });
  return out.to(x.scalar_type());
}

Tensor dropout(const Tensor& x, double p, const MicrobatchContext& pass, int site) {
  if (p == 0.0 || !pass.training) return x;
  return DropoutFunction::apply(x, std::optional<Tensor>(), DropoutMask::of(pass, p, site));
}

Tensor dropout_add(const Tensor& x, const Tensor& residual, double p, const MicrobatchContext& pass,
                   int site) {
  if (p == 0.0 || !pass.training) return residual + x;
  return DropoutFunction::apply(x, std::optional(residual), DropoutMask::of(pass, p, site));
}

}  // namespace ops
}  // namespace twobw::models
