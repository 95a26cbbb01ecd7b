// The last product and the cross-entropy in one, so that the logits of a microbatch never exist all at once:
// the gradients are made in the forward, while a part of the logits is there.
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "engine/models/ops_cuda.h"
#include "engine/models/ops_cuda/common.h"

namespace twobw::models::ops::cuda {
namespace {

constexpr std::int64_t kLogitRows = 8192;    // that exist at a time
constexpr std::int64_t kLogitMultiple = 64;  // rows of logits begin at multiples, so that products are fast

Tensor room_for(std::int64_t rows, std::int64_t stride, const at::TensorOptions& options, Tensor* shared) {
  if (shared == nullptr) return at::empty({rows, stride}, options);
  if (!shared->defined() || shared->numel() < rows * stride) *shared = at::empty({rows * stride}, options);
  return shared->narrow(0, 0, rows * stride).view({rows, stride});
}

// The bias's gradient += the sums of the columns, of which there are more than it has elements: room between
// the rows.
void add_sums(const Tensor& rows, const Tensor& bias) {
  const std::int64_t width = rows.size(1);
  const Tensor partial = floats(kernels::column_sums_partials(rows.size(0), width_of(rows)), rows);
  const Tensor sums = floats(width, rows).zero_();
  with_type_of(rows, [&]<typename T>(T) {
    kernels::add_column_sums(data_of<T>(rows), data_of<float>(sums), data_of<float>(partial), rows.size(0),
                             width_of(rows), current_stream());
  });
  gradient_of(bias).add_(sums.narrow(0, 0, bias.numel()));
}

struct HeadLossFunction : torch::autograd::Function<HeadLossFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& hidden, const Tensor& weight,
                        const std::optional<Tensor>& bias, const Tensor& targets, const Tensor& scale,
                        const std::optional<Tensor>& of_gradients, bool needs_gradient, Tensor* shared) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor rows = rows_of(hidden);
    const Tensor wanted = targets.contiguous();
    const std::int64_t count = rows.size(0), classes = weight.size(0);
    const std::int64_t stride = (classes + kLogitMultiple - 1) / kLogitMultiple * kLogitMultiple;
    const Tensor room = room_for(std::min(count, kLogitRows), stride, rows.options(), shared);
    const Tensor losses = floats(count, rows);
    const Tensor grad_hidden = needs_gradient ? at::empty(hidden.sizes(), hidden.options()) : Tensor();
    const Tensor grad_rows = needs_gradient ? rows_of(grad_hidden) : Tensor();
    // They lie on the device, where graphs find those of the microbatch they run for.
    const double* of_loss = scale.const_data_ptr<double>();
    const Tensor gradient_scale = of_gradients ? scale * *of_gradients : scale;
    const double* of_gradient = gradient_scale.const_data_ptr<double>();
    TWOBW_ASSERT(wanted.numel() == count, "{} targets for {} rows", wanted.numel(), count);

    for (std::int64_t begin = 0; begin < count; begin += kLogitRows) {
      const std::int64_t size = std::min(kLogitRows, count - begin);
      const Tensor part = rows.narrow(0, begin, size);
      const Tensor logits = room.narrow(0, 0, size).narrow(1, 0, classes);
      multiply_into(logits, {part}, {weight, true}, {.bias = bias.value_or(Tensor())});
      with_type_of(room, [&]<typename T>(T) {
        kernels::softmax_cross_entropy(data_of<T>(room), wanted.const_data_ptr<std::int64_t>() + begin,
                                       losses.mutable_data_ptr<float>() + begin, size,
                                       static_cast<int>(classes), needs_gradient ? of_gradient : nullptr,
                                       current_stream(), static_cast<int>(stride));
      });
      if (!needs_gradient) continue;
      multiply_into(grad_rows.narrow(0, begin, size), {logits}, {weight});
      if (weight.requires_grad()) accumulate_product(weight, logits, part);
      if (bias && bias->requires_grad()) add_sums(room.narrow(0, 0, size), *bias);
    }
    Tensor loss = at::empty({}, losses.options());
    kernels::scaled_sum(losses.const_data_ptr<float>(), of_loss, loss.mutable_data_ptr<float>(), count,
                        current_stream());
    check_launch();
    context->save_for_backward({grad_hidden});
    return loss;
  }

  // The gradient was made in the forward; the incoming gradient of the loss must be 1.
  static tensor_list backward(AutogradContext* context, tensor_list) {
    tensor_list gradients(8);
    gradients[0] = context->get_saved_variables()[0];
    return gradients;
  }
};

}  // namespace

Tensor head_loss(const Tensor& hidden, const Tensor& weight, const Tensor& bias, const Tensor& targets,
                 const Tensor& scale, const Tensor& of_gradients, bool needs_gradient, Tensor* room) {
  return HeadLossFunction::apply(hidden, weight, given(bias), targets, scale, given(of_gradients),
                                 needs_gradient, room);
}

}  // namespace twobw::models::ops::cuda
