#include "models/ops_cuda.h"

#include <ATen/Context.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "device/gpu.h"
#include "models/cuda/matmul.h"
#include "models/kernels_cuda.h"

namespace twobw::models::ops::cuda {
namespace {

namespace kernels = twobw::models::cuda;
using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

cudaStream_t current_stream() {
  return c10::cuda::getCurrentCUDAStream().stream();
}

bool is_bfloat16(const Tensor& x) {
  TWOBW_ASSERT(x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16, "a tensor of {} on a GPU",
               c10::toString(x.scalar_type()));
  return x.scalar_type() == at::kBFloat16;
}

// That an event asked for on this thread was not ready is kept as an error too, but is none.
void check_launch() {
  const cudaError_t error = cudaGetLastError();
  if (error != cudaErrorNotReady) device::check_cuda(error, "launching a kernel");
}

// Calls back, to launch a kernel, with a value of the type that x has.
template <typename F>
void with_type_of(const Tensor& x, const F& call) {
  if (is_bfloat16(x))
    call(__nv_bfloat16{});
  else
    call(float{});
  check_launch();
}

// The kernels read whole packs of 16 bytes where rows consist of them.
template <typename T>
T* data_of(const Tensor& x) {
  TWOBW_ASSERT(x.is_contiguous(), "a tensor with gaps");
  TWOBW_ASSERT(x.element_size() == sizeof(T), "a tensor of {}", c10::toString(x.scalar_type()));
  auto* data = static_cast<T*>(x.data_ptr());
  TWOBW_ASSERT(reinterpret_cast<std::uintptr_t>(data) % 16 == 0 || x.size(-1) * x.element_size() % 16 != 0,
               "a tensor that begins between packs");
  return data;
}

Tensor rows_of(const Tensor& x) {
  return x.contiguous().view({-1, x.size(-1)});
}

int width_of(const Tensor& x) {
  return static_cast<int>(x.size(-1));
}

Tensor floats(std::int64_t count, const Tensor& like) {
  return at::empty({count}, like.options().dtype(at::kFloat));
}

// Where the gradient of a parameter is accumulated.
Tensor gradient_of(const Tensor& parameter) {
  Tensor gradient = parameter.grad();
  TWOBW_ASSERT(gradient.defined() && gradient.scalar_type() == at::kFloat && gradient.is_contiguous() &&
                   gradient.sizes() == parameter.sizes(),
               "a parameter on a GPU without a gradient of float");
  return gradient;
}

bool wants_gradient(std::initializer_list<Tensor> inputs) {
  return at::GradMode::is_enabled() && std::any_of(inputs.begin(), inputs.end(), [](const Tensor& x) {
           return x.defined() && x.requires_grad();
         });
}

// A matrix of a product: 2 dimensions, rows without gaps in them.
struct Matrix {
  const Tensor& tensor;
  bool transposed = false;

  std::int64_t rows() const { return tensor.size(transposed ? 1 : 0); }
  std::int64_t columns() const { return tensor.size(transposed ? 0 : 1); }
};

std::int64_t stride_of(const Tensor& matrix) {
  TWOBW_ASSERT(matrix.dim() == 2 && (matrix.stride(1) == 1 || matrix.size(1) == 1),
               "not the rows of a matrix");
  return std::max(matrix.stride(0), matrix.size(1));  // one row alone may have any stride
}

kernels::Type type_of(const Tensor& x) {
  return is_bfloat16(x) ? kernels::Type::kBfloat16 : kernels::Type::kFloat;
}

struct Added {
  Tensor matrix{}, bias{};
};

// out = a b, and what is added to it.
void multiply_into(const Tensor& out, const Matrix& a, const Matrix& b, const Added& added = {}) {
  TWOBW_ASSERT(a.columns() == b.rows() && out.size(0) == a.rows() && out.size(1) == b.columns(),
               "a product [{}, {}] x [{}, {}] into [{}, {}]", a.rows(), a.columns(), b.rows(), b.columns(),
               out.size(0), out.size(1));
  TWOBW_ASSERT(a.tensor.scalar_type() == b.tensor.scalar_type(), "a product of {} and {}",
               c10::toString(a.tensor.scalar_type()), c10::toString(b.tensor.scalar_type()));
  kernels::Product product{
      .m = a.rows(),
      .n = b.columns(),
      .k = a.columns(),
      .a = {.data = a.tensor.data_ptr(), .stride = stride_of(a.tensor), .transposed = a.transposed},
      .b = {.data = b.tensor.data_ptr(), .stride = stride_of(b.tensor), .transposed = b.transposed},
      .in = type_of(a.tensor),
      .type = type_of(out),
      .out = out.data_ptr(),
      .out_stride = stride_of(out)};
  if (added.matrix.defined()) {
    TWOBW_ASSERT(added.matrix.sizes() == out.sizes() && added.matrix.scalar_type() == out.scalar_type(),
                 "a product and what is added to it differ");
    product.added = added.matrix.data_ptr();
    product.added_stride = stride_of(added.matrix);
  }
  if (added.bias.defined()) {
    TWOBW_ASSERT(added.bias.numel() == out.size(1) && added.bias.is_contiguous() &&
                     added.bias.scalar_type() == out.scalar_type(),
                 "a product and its bias differ");
    product.bias = added.bias.data_ptr();
  }
  kernels::multiply(product, current_stream());
}

// The weight's gradient += a^T b.
void accumulate_product(const Tensor& weight, const Tensor& a, const Tensor& b) {
  const Tensor gradient = gradient_of(weight);
  multiply_into(gradient, {a, true}, {b}, {.matrix = gradient});
}

void accumulate_sum(const Tensor& bias, const Tensor& grad_rows) {
  const Tensor gradient = gradient_of(bias);
  const Tensor partial =
      floats(kernels::column_sums_partials(grad_rows.size(0), width_of(grad_rows)), gradient);
  with_type_of(grad_rows, [&]<typename T>(T) {
    kernels::add_column_sums(data_of<T>(grad_rows), data_of<float>(gradient), data_of<float>(partial),
                             grad_rows.size(0), width_of(grad_rows), current_stream());
  });
}

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& bias, const std::optional<Tensor>& residual) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor rows = rows_of(x);
    auto sizes = x.sizes().vec();
    sizes.back() = weight.size(0);
    Tensor out = at::empty(sizes, x.options());
    multiply_into(rows_of(out), {rows}, {weight, true},
                  {.matrix = residual ? rows_of(*residual) : Tensor(), .bias = bias.value_or(Tensor())});
    context->save_for_backward({rows, weight, bias.value_or(Tensor())});
    context->saved_data["residual"] = residual.has_value();
    return out;
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const auto saved = context->get_saved_variables();
    const Tensor &rows = saved[0], &weight = saved[1], &bias = saved[2];
    const Tensor grad_out = grads[0].contiguous();
    const Tensor grad_rows = rows_of(grad_out);
    Tensor grad_x;
    if (context->needs_input_grad(0)) {
      auto sizes = grad_out.sizes().vec();
      sizes.back() = weight.size(1);
      grad_x = at::empty(sizes, grad_out.options());
      multiply_into(rows_of(grad_x), {grad_rows}, {weight});
    }
    if (weight.requires_grad()) accumulate_product(weight, grad_rows, rows);
    if (bias.defined() && bias.requires_grad()) accumulate_sum(bias, grad_rows);
    return {grad_x, Tensor(), Tensor(), context->saved_data["residual"].toBool() ? grad_out : Tensor()};
  }
};

struct EmbedFunction : torch::autograd::Function<EmbedFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& token_weight, const Tensor& position_weight,
                        const Tensor& tokens) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor index = tokens.contiguous();
    const std::int64_t batch = index.size(0), length = index.size(1);
    TWOBW_ASSERT(length <= position_weight.size(0), "{} tokens for {} positions", length,
                 position_weight.size(0));
    Tensor out = at::empty({batch, length, token_weight.size(1)}, token_weight.options());
    with_type_of(out, [&]<typename T>(T) {
      kernels::embed_forward<T>(data_of<T>(token_weight), data_of<T>(position_weight),
                                index.const_data_ptr<std::int64_t>(), data_of<T>(out), batch, length,
                                width_of(out), current_stream());
    });
    context->save_for_backward({token_weight, position_weight, index});
    return out;
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const auto saved = context->get_saved_variables();
    const Tensor &token_weight = saved[0], &index = saved[2];
    const Tensor grad_out = grads[0].contiguous();
    const Tensor grad_tokens = gradient_of(token_weight), grad_positions = gradient_of(saved[1]);
    with_type_of(grad_out, [&]<typename T>(T) {
      kernels::embed_backward<T>({.grad_out = data_of<T>(grad_out),
                                  .tokens = index.const_data_ptr<std::int64_t>(),
                                  .grad_tokens = data_of<float>(grad_tokens),
                                  .grad_positions = data_of<float>(grad_positions),
                                  .batch = index.size(0),
                                  .length = index.size(1),
                                  .vocabulary = token_weight.size(0),
                                  .width = width_of(grad_out),
                                  .deterministic = device::gpu_context(current_stream()).deterministic},
                                 current_stream());
    });
    return {Tensor(), Tensor(), Tensor()};
  }
};

// The normed input, and where `stream`, the input itself as a second output: what comes back along it is then
// added to the input's gradient by the kernel that makes it.
struct NormFunction : torch::autograd::Function<NormFunction> {
  static tensor_list forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                             const Tensor& bias, bool stream) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->set_materialize_grads(false);
    const Tensor rows = rows_of(x);
    Tensor out = at::empty(x.sizes(), x.options());
    const Tensor mean = floats(rows.size(0), rows), deviation = floats(rows.size(0), rows);
    with_type_of(rows, [&]<typename T>(T) {
      kernels::layer_norm_forward<T>({.x = data_of<T>(rows),
                                      .weight = data_of<T>(weight),
                                      .bias = data_of<T>(bias),
                                      .out = data_of<T>(out),
                                      .mean = data_of<float>(mean),
                                      .deviation = data_of<float>(deviation),
                                      .rows = rows.size(0),
                                      .width = width_of(rows)},
                                     current_stream());
    });
    context->save_for_backward({rows, weight, bias, mean, deviation});
    if (!stream) return {out};
    return {out, at::alias(x)};
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const Tensor grad_stream = grads.size() > 1 && grads[1].defined() ? grads[1].contiguous() : Tensor();
    if (!grads[0].defined()) return {grad_stream, Tensor(), Tensor(), Tensor()};
    const auto saved = context->get_saved_variables();
    const Tensor& rows = saved[0];
    const Tensor grad_out = grads[0].contiguous();
    const Tensor grad_weight = gradient_of(saved[1]), grad_bias = gradient_of(saved[2]);
    Tensor grad_x = at::empty(grad_out.sizes(), grad_out.options());
    const Tensor partial = floats(kernels::layer_norm_partials(rows.size(0), width_of(rows)), rows);
    with_type_of(rows, [&]<typename T>(T) {
      kernels::layer_norm_backward<T>(
          {.grad_out = data_of<T>(grad_out),
           .grad_stream = grad_stream.defined() ? data_of<T>(grad_stream) : nullptr,
           .sum = data_of<T>(rows),
           .weight = data_of<T>(saved[1]),
           .mean = data_of<float>(saved[3]),
           .deviation = data_of<float>(saved[4]),
           .grad_x = data_of<T>(grad_x),
           .grad_weight = data_of<float>(grad_weight),
           .grad_bias = data_of<float>(grad_bias),
           .partial = data_of<float>(partial),
           .rows = rows.size(0),
           .width = width_of(rows)},
          current_stream());
    });
    return {grad_x, Tensor(), Tensor(), Tensor()};
  }
};

struct GeluFunction : torch::autograd::Function<GeluFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor input = x.contiguous();
    Tensor out = at::empty(input.sizes(), input.options());
    with_type_of(input, [&]<typename T>(T) {
      kernels::gelu_forward<T>(data_of<T>(input), data_of<T>(out), input.numel(), current_stream());
    });
    context->save_for_backward({input});
    return out;
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const Tensor input = context->get_saved_variables()[0];
    const Tensor grad_out = grads[0].contiguous();
    Tensor grad_x = at::empty(input.sizes(), input.options());
    with_type_of(input, [&]<typename T>(T) {
      kernels::gelu_backward<T>(data_of<T>(input), data_of<T>(grad_out), data_of<T>(grad_x), input.numel(),
                                current_stream());
    });
    return {grad_x};
  }
};

// q, k and v [b, heads, T, d] out of packed qkv [b, T, 3w], as they lie there.
std::array<Tensor, 3> split_heads(const Tensor& qkv, std::int64_t heads) {
  const std::int64_t b = qkv.size(0), length = qkv.size(1), width = qkv.size(2) / 3;
  const Tensor split = qkv.view({b, length, 3, heads, width / heads}).permute({2, 0, 3, 1, 4});
  return {split.select(0, 0), split.select(0, 1), split.select(0, 2)};
}

// [b, heads, T, d] -> [b, T, w]; no copy where the heads of a token lie side by side.
Tensor join_heads(const Tensor& x) {
  return x.transpose(1, 2).contiguous().view({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

// LibTorch's flash attention asks its global setting whether the backward may add in any order.
void be_deterministic() {
  at::Context& context = at::globalContext();
  if (context.deterministicAlgorithms()) return;
  context.setDeterministicFillUninitializedMemory(false);
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
}

struct AttentionFunction : torch::autograd::Function<AttentionFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& qkv, std::int64_t heads,
                        bool needs_gradient) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor packed = qkv.contiguous();
    const auto [q, k, v] = split_heads(packed, heads);
    const bool deterministic = device::gpu_context(current_stream()).deterministic;
    const bool cudnn = !deterministic && q.size(3) <= 128;
    if (deterministic) be_deterministic();
    Tensor mixed, logsumexp, seed, offset;
    if (cudnn) {
      auto result = at::_scaled_dot_product_cudnn_attention(q, k, v, /*attn_bias=*/std::nullopt,
                                                            /*compute_log_sumexp=*/needs_gradient,
                                                            /*dropout_p=*/0.0, /*is_causal=*/true);
      std::tie(mixed, logsumexp, seed, offset) =
          std::tie(std::get<0>(result), std::get<1>(result), std::get<6>(result), std::get<7>(result));
    } else {
      auto result = at::_scaled_dot_product_flash_attention(q, k, v, /*dropout_p=*/0.0, /*is_causal=*/true);
      std::tie(mixed, logsumexp, seed, offset) =
          std::tie(std::get<0>(result), std::get<1>(result), std::get<6>(result), std::get<7>(result));
    }
    context->save_for_backward({packed, mixed, logsumexp, seed, offset});
    context->saved_data["heads"] = heads;
    context->saved_data["cudnn"] = cudnn;
    return join_heads(mixed);
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto saved = context->get_saved_variables();
    const Tensor &packed = saved[0], &mixed = saved[1], &logsumexp = saved[2], &seed = saved[3],
                 &offset = saved[4];
    const std::int64_t heads = context->saved_data["heads"].toInt();
    const std::int64_t b = packed.size(0), length = packed.size(1), width = packed.size(2) / 3;
    const auto [q, k, v] = split_heads(packed, heads);
    const Tensor grad_mixed = grads[0].contiguous().view({b, length, heads, width / heads}).transpose(1, 2);
    const auto [grad_q, grad_k, grad_v] =
        context->saved_data["cudnn"].toBool()
            ? at::_scaled_dot_product_cudnn_attention_backward(grad_mixed, q, k, v, mixed, logsumexp, seed,
                                                               offset,
                                                               /*attn_bias=*/Tensor(), /*cum_seq_q=*/Tensor(),
                                                               /*cum_seq_k=*/Tensor(), length, length,
                                                               /*dropout_p=*/0.0, /*is_causal=*/true)
            : at::_scaled_dot_product_flash_attention_backward(grad_mixed, q, k, v, mixed, logsumexp,
                                                               /*cum_seq_q=*/Tensor(), /*cum_seq_k=*/Tensor(),
                                                               length, length, /*dropout_p=*/0.0,
                                                               /*is_causal=*/true, seed, offset);
    const Tensor dq = join_heads(grad_q), dk = join_heads(grad_k), dv = join_heads(grad_v);
    Tensor grad_qkv = at::empty(packed.sizes(), packed.options());
    with_type_of(packed, [&]<typename T>(T) {
      kernels::pack_three<T>(data_of<T>(dq), data_of<T>(dk), data_of<T>(dv), data_of<T>(grad_qkv), b * length,
                             static_cast<int>(width), current_stream());
    });
    return {grad_qkv, Tensor(), Tensor()};
  }
};

constexpr std::int64_t kLogitRows = 8192;    // that exist at a time
constexpr std::int64_t kLogitMultiple = 64;  // rows of logits begin at multiples, so that products are fast

Tensor room_for(std::int64_t rows, std::int64_t stride, const at::TensorOptions& options, Tensor* shared) {
  if (shared == nullptr) return at::empty({rows, stride}, options);
  if (!shared->defined() || shared->numel() < rows * stride) *shared = at::empty({rows * stride}, options);
  return shared->narrow(0, 0, rows * stride).view({rows, stride});
}

struct HeadLossFunction : torch::autograd::Function<HeadLossFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& hidden, const Tensor& weight,
                        const Tensor& targets, double loss_scale, bool needs_gradient, Tensor* shared) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor rows = rows_of(hidden);
    const Tensor wanted = targets.contiguous();
    const std::int64_t count = rows.size(0), classes = weight.size(0);
    const std::int64_t stride = (classes + kLogitMultiple - 1) / kLogitMultiple * kLogitMultiple;
    const Tensor room = room_for(std::min(count, kLogitRows), stride, rows.options(), shared);
    const Tensor losses = floats(count, rows);
    const Tensor grad_hidden = needs_gradient ? at::empty(hidden.sizes(), hidden.options()) : Tensor();
    const Tensor grad_rows = needs_gradient ? rows_of(grad_hidden) : Tensor();
    const float scale = needs_gradient ? static_cast<float>(loss_scale / static_cast<double>(count)) : 0.0f;
    TWOBW_ASSERT(wanted.numel() == count, "{} targets for {} rows", wanted.numel(), count);

    for (std::int64_t begin = 0; begin < count; begin += kLogitRows) {
      const std::int64_t size = std::min(kLogitRows, count - begin);
      const Tensor part = rows.narrow(0, begin, size);
      const Tensor logits = room.narrow(0, 0, size).narrow(1, 0, classes);
      multiply_into(logits, {part}, {weight, true});
      with_type_of(room, [&]<typename T>(T) {
        kernels::softmax_cross_entropy(data_of<T>(room), wanted.const_data_ptr<std::int64_t>() + begin,
                                       losses.mutable_data_ptr<float>() + begin, size,
                                       static_cast<int>(classes), scale, current_stream(),
                                       static_cast<int>(stride));
      });
      if (!needs_gradient) continue;
      multiply_into(grad_rows.narrow(0, begin, size), {logits}, {weight});
      if (weight.requires_grad()) accumulate_product(weight, logits, part);
    }
    Tensor loss = at::empty({}, losses.options());
    kernels::mean(losses.const_data_ptr<float>(), loss.mutable_data_ptr<float>(), count, current_stream());
    check_launch();
    context->save_for_backward({grad_hidden});
    return loss;
  }

  // The gradient was made in the forward; the incoming gradient of the loss must be 1.
  static tensor_list backward(AutogradContext* context, tensor_list) {
    return {context->get_saved_variables()[0], Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

std::optional<Tensor> given(const Tensor& x) {
  return x.defined() ? std::optional(x) : std::nullopt;
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual) {
  return LinearFunction::apply(x, weight, given(bias), given(residual));
}

Tensor embed(const Tensor& token_weight, const Tensor& position_weight, const Tensor& tokens) {
  return EmbedFunction::apply(token_weight, position_weight, tokens);
}

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return NormFunction::apply(x, weight, bias, false)[0];
}

std::pair<Tensor, Tensor> norm_and_stream(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const tensor_list outputs = NormFunction::apply(x, weight, bias, true);
  return {outputs[0], outputs[1]};
}

Tensor gelu(const Tensor& x) {
  return GeluFunction::apply(x);
}

Tensor causal_attention(const Tensor& qkv, int heads) {
  const std::int64_t head = qkv.size(2) / 3 / heads;
  if (is_bfloat16(qkv) && head % 8 == 0 && head <= 256)
    return AttentionFunction::apply(qkv, static_cast<std::int64_t>(heads), wants_gradient({qkv}));
  const auto [q, k, v] = split_heads(qkv, heads);
  return join_heads(
      std::get<0>(at::_scaled_dot_product_attention_math(q, k, v, {}, 0.0, /*is_causal=*/true)));
}

Tensor head_loss(const Tensor& hidden, const Tensor& weight, const Tensor& targets, double loss_scale,
                 bool needs_gradient, Tensor* room) {
  return HeadLossFunction::apply(hidden, weight, targets, loss_scale, needs_gradient, room);
}

}  // namespace twobw::models::ops::cuda
