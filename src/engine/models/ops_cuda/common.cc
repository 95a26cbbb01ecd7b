#include "engine/models/ops_cuda/common.h"

#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>

#include "engine/device/gpu.h"

namespace twobw::models::ops::cuda {

using at::Tensor;

cudaStream_t current_stream() {
  return c10::cuda::getCurrentCUDAStream().stream();
}

bool is_narrow(const Tensor& x) {
  const at::ScalarType type = x.scalar_type();
  TWOBW_ASSERT(type == at::kFloat || type == at::kBFloat16 || type == at::kHalf, "a tensor of {} on a GPU",
               c10::toString(type));
  return type != at::kFloat;
}

// CUDA also records "not ready", the answer to a query of an event, as an error.
void check_launch() {
  const cudaError_t error = cudaGetLastError();
  if (error != cudaErrorNotReady) device::check_cuda(error, "launching a kernel");
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

}  // namespace twobw::models::ops::cuda
