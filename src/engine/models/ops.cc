// The operations of the layers on CPUs, each with its backward.
#include "engine/models/ops.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "engine/models/decoding.h"
#include "engine/models/kernels.h"
#include "engine/models/ops_cuda.h"

namespace twobw::models::ops {
namespace {

Tensor rows_of(const Tensor& x) {
  return x.reshape({-1, x.size(-1)});
}

// Adds the product a^T b to the weight's gradient in place; without one, returns it.
Tensor accumulate_product(const Tensor& weight, const Tensor& a, const Tensor& b) {
  Tensor gradient = weight.grad();
  if (!gradient.defined()) return a.t().mm(b);
  const at::ScalarType sums = gradient.scalar_type();
  gradient.addmm_(a.to(sums).t(), b.to(sums));
  return {};
}

Tensor accumulate_sum(const Tensor& bias, const Tensor& grad_rows) {
  if (!bias.defined()) return {};
  return accumulate(bias, grad_rows.sum(0, /*keepdim=*/false, at::kFloat));
}

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& bias) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor rows = rows_of(x);
    const Tensor out = bias ? at::addmm(*bias, rows, weight.t()) : rows.mm(weight.t());
    context->save_for_backward({rows, weight, bias.value_or(Tensor())});
    auto sizes = x.sizes().vec();
    sizes.back() = weight.size(0);
    return out.view(sizes);
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const auto saved = context->get_saved_variables();
    const Tensor grad_rows = rows_of(grads[0]);
    Tensor grad_x;
    if (context->needs_input_grad(0)) {
      auto sizes = grads[0].sizes().vec();
      sizes.back() = saved[1].size(1);
      grad_x = grad_rows.mm(saved[1]).view(sizes);
    }
    Tensor grad_weight = accumulate_product(saved[1], grad_rows, saved[0]);
    Tensor grad_bias = accumulate_sum(saved[2], grad_rows);
    return {grad_x, grad_weight, grad_bias};
  }
};

struct EmbeddingFunction : torch::autograd::Function<EmbeddingFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& weight, const Tensor& index) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({weight, index});
    auto sizes = index.sizes().vec();
    sizes.push_back(weight.size(1));
    return weight.index_select(0, index.reshape(-1)).view(sizes);
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const auto saved = context->get_saved_variables();
    Tensor gradient = saved[0].grad();
    const bool in_place = gradient.defined();
    if (!in_place) gradient = at::zeros_like(saved[0]);
    gradient.index_add_(0, saved[1].reshape(-1), rows_of(grads[0]).to(gradient.scalar_type()));
    return {in_place ? Tensor() : gradient, Tensor()};
  }
};

// An activation by its kernels over whole tensors.
template <auto kForward, auto kBackward>
struct ActivationFunction : torch::autograd::Function<ActivationFunction<kForward, kBackward>> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor input = x.contiguous(), wide = widened(input);
    Tensor out = at::empty_like(wide);
    const float* in = wide.const_data_ptr<float>();
    float* to = out.mutable_data_ptr<float>();
    at::parallel_for(0, wide.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      kForward(in + begin, to + begin, end - begin);
    });
    context->save_for_backward({input});
    return out.to(input.scalar_type());
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const Tensor input = context->get_saved_variables()[0], wide = widened(input);
    const Tensor grad_out = widened(grads[0]);
    Tensor grad_x = at::empty_like(wide);
    const float* in = wide.const_data_ptr<float>();
    const float* go = grad_out.const_data_ptr<float>();
    float* gx = grad_x.mutable_data_ptr<float>();
    at::parallel_for(0, wide.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      kBackward(in + begin, go + begin, gx + begin, end - begin);
    });
    return {grad_x.to(input.scalar_type())};
  }
};
using GeluFunction = ActivationFunction<models::gelu_forward, models::gelu_backward>;
using ErfGeluFunction = ActivationFunction<models::erf_gelu_forward, models::erf_gelu_backward>;

struct HeadLossFunction : torch::autograd::Function<HeadLossFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& hidden, const Tensor& weight,
                        const std::optional<Tensor>& bias, const Tensor& targets, const Tensor& scale,
                        const std::optional<Tensor>& of_gradients, bool needs_gradient) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor rows = rows_of(hidden);
    const Tensor wanted = targets.reshape(-1).contiguous();
    const std::int64_t count = rows.size(0), classes = weight.size(0);
    Tensor logits = widened(bias ? at::addmm(*bias, rows, weight.t()) : rows.mm(weight.t()));
    Tensor losses = at::empty({count}, at::kDouble);

    const double factor = scale.item<double>();
    const double times = of_gradients ? of_gradients->item<double>() : 1.0;
    const float of_gradient = needs_gradient ? static_cast<float>(factor * times) : 0.0f;
    float* z = logits.mutable_data_ptr<float>();
    const std::int64_t* target = wanted.const_data_ptr<std::int64_t>();
    double* loss = losses.mutable_data_ptr<double>();
    at::parallel_for(0, count, 1 + kGrain / classes, [&](std::int64_t begin, std::int64_t end) {
      models::softmax_cross_entropy(z + begin * classes, target + begin, loss + begin, end - begin, classes,
                                    of_gradient);
    });
    const Tensor gradient = needs_gradient ? logits.to(rows.scalar_type()) : Tensor();
    context->save_for_backward({rows, weight, bias.value_or(Tensor()), gradient});
    context->saved_data["sizes"] = hidden.sizes().vec();
    double total = 0.0;
    for (std::int64_t row = 0; row < count; ++row) total += loss[row];
    return at::scalar_tensor(total * factor, at::kFloat);
  }

  // The gradient was made in the forward; the incoming gradient of the loss must be 1.
  static tensor_list backward(AutogradContext* context, tensor_list) {
    const auto saved = context->get_saved_variables();
    const Tensor& grad_logits = saved[3];
    Tensor grad_hidden = grad_logits.mm(saved[1]).view(context->saved_data["sizes"].toIntVector());
    Tensor grad_weight = accumulate_product(saved[1], grad_logits, saved[0]);
    Tensor grad_bias = accumulate_sum(saved[2], grad_logits);
    return {grad_hidden, grad_weight, grad_bias, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

// x, with a gradient that is multiplied with `factor`.
struct TimesGradientFunction : torch::autograd::Function<TimesGradientFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& factor) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({factor});
    return x.clone();
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    return {grads[0] * context->get_saved_variables()[0], Tensor()};
  }
};

struct SwigluFunction : torch::autograd::Function<SwigluFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor input = x.contiguous();
    const std::int64_t width = input.size(-1) / 2, rows = input.numel() / (2 * width);
    auto sizes = input.sizes().vec();
    sizes.back() = width;
    const Tensor wide = widened(input);
    Tensor out = at::empty(sizes, wide.options());
    const float* from = wide.const_data_ptr<float>();
    float* to = out.mutable_data_ptr<float>();
    at::parallel_for(0, rows, 1 + kGrain / width, [&](std::int64_t begin, std::int64_t end) {
      models::swiglu_forward(from + begin * 2 * width, to + begin * width, end - begin, width);
    });
    context->save_for_backward({input});
    return out.to(input.scalar_type());
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const Tensor input = context->get_saved_variables()[0];
    const Tensor wide = widened(input), grad_out = widened(grads[0]);
    const std::int64_t width = input.size(-1) / 2, rows = input.numel() / (2 * width);
    Tensor grad_x = at::empty_like(wide);
    const float *from = wide.const_data_ptr<float>(), *gradients = grad_out.const_data_ptr<float>();
    float* to = grad_x.mutable_data_ptr<float>();
    at::parallel_for(0, rows, 1 + kGrain / width, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t at = begin * width;
      models::swiglu_backward(from + 2 * at, gradients + at, to + 2 * at, end - begin, width);
    });
    return {grad_x.to(input.scalar_type())};
  }
};

struct LastTokenFunction : torch::autograd::Function<LastTokenFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& last) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({last});
    context->saved_data["places"] = x.size(1);
    const Tensor rows = at::arange(x.size(0), last.options()) * x.size(1) + last;
    return x.flatten(0, 1).index_select(0, rows);
  }

  // Element by element: nothing is added, so the order does not matter.
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const Tensor last = context->get_saved_variables()[0];
    const Tensor places = at::arange(context->saved_data["places"].toInt(), last.options());
    const Tensor chosen = places.eq(last.unsqueeze(1)).unsqueeze(2);  // [b, T, 1]
    return {at::where(chosen, grads[0].unsqueeze(1), 0), Tensor()};
  }
};

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (x.is_cuda()) return cuda::linear(x, weight, bias, {});
  if (is_step(x)) return skinny_linear(x, weight, bias);
  return LinearFunction::apply(x, weight, given(bias));
}

Tensor linear_add(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual) {
  if (x.is_cuda()) return cuda::linear(x, weight, bias, residual);
  return residual + ops::linear(x, weight, bias);
}

std::pair<Tensor, Tensor> linear_and_stream(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (x.is_cuda()) return cuda::linear_and_stream(x, weight, bias);
  return {ops::linear(x, weight, bias), x};
}

Tensor embedding(const Tensor& weight, const Tensor& index) {
  if (weight.is_cuda()) return cuda::embed(weight, {}, index);
  return EmbeddingFunction::apply(weight, index);
}

Tensor embed(const Tensor& token_weight, const Tensor& position_weight, const Tensor& tokens,
             const Tensor& positions) {
  if (positions.defined())
    return ops::embedding(token_weight, tokens) + ops::embedding(position_weight, positions);
  if (token_weight.is_cuda()) return cuda::embed(token_weight, position_weight, tokens);
  const Tensor places = at::arange(tokens.size(1), at::kLong);
  // Autograd would sum a position's gradient over the sequences in 16 bits.
  if (at::isReducedFloatingType(token_weight.scalar_type()))
    return ops::embedding(token_weight, tokens) + ops::embedding(position_weight, places.expand_as(tokens));
  return ops::embedding(token_weight, tokens) + ops::embedding(position_weight, places).unsqueeze(0);
}

Tensor gelu(const Tensor& x) {
  if (x.is_cuda()) return cuda::gelu(x);
  return GeluFunction::apply(x);
}

Tensor erf_gelu(const Tensor& x) {
  if (x.is_cuda()) return cuda::erf_gelu(x);
  return ErfGeluFunction::apply(x);
}

Tensor head_loss(const Tensor& hidden, const Tensor& weight, const Tensor& bias, const Tensor& targets,
                 const Tensor& scale, Tensor* room, const Tensor& of_gradients) {
  const bool needs_gradient =
      at::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad());
  if (hidden.is_cuda())
    return cuda::head_loss(hidden, weight, bias, targets, scale, of_gradients, needs_gradient, room);
  return HeadLossFunction::apply(hidden, weight, given(bias), targets, scale, given(of_gradients),
                                 needs_gradient);
}

Tensor squared_error(const Tensor& predicted, const Tensor& values, const Tensor& scale,
                     const Tensor& of_gradients) {
  Tensor wide = predicted.squeeze(1).to(at::kDouble);
  if (of_gradients.defined()) wide = TimesGradientFunction::apply(wide, of_gradients);
  const Tensor difference = (wide - values).masked_fill(values.isnan(), 0);
  return ((difference * difference).sum() * scale.squeeze(0)).to(at::kFloat);
}

Tensor swiglu(const Tensor& x) {
  return x.is_cuda() ? cuda::swiglu(x) : SwigluFunction::apply(x);
}

Tensor last_token(const Tensor& x, const Tensor& lengths) {
  if (!lengths.defined()) return x.select(1, -1).contiguous();
  return LastTokenFunction::apply(x, lengths.clamp_min(1) - 1);
}

}  // namespace twobw::models::ops
