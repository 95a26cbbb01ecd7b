// What the operations of ops_cuda.h share: the stream they launch on, the types that kernels are made for,
// and tensors as the kernels want them.
#pragma once

#include <ATen/ATen.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <initializer_list>

#include "core/base/error.h"
#include "engine/models/kernels_cuda.h"

namespace twobw::models::ops::cuda {

namespace kernels = twobw::models::cuda;

// The calling thread's; in a backward, which LibTorch runs on a thread of its own, that of the forward.
cudaStream_t current_stream();

// Whether it has 16 bits, or else is of float. Asserts that it is of float, bfloat16 or half.
bool is_narrow(const at::Tensor& x);

// Throws RunError where the launch just made failed.
void check_launch();

// Calls back, to launch a kernel, with a value of the type that x has.
template <typename F>
void with_type_of(const at::Tensor& x, const F& call) {
  if (!is_narrow(x))
    call(float{});
  else if (x.scalar_type() == at::kBFloat16)
    call(__nv_bfloat16{});
  else
    call(__half{});
  check_launch();
}

// Where the elements begin of a tensor without gaps. The kernels read whole packs of 16 bytes where rows
// consist of them; asserts that they may.
template <typename T>
T* data_of(const at::Tensor& x) {
  TWOBW_ASSERT(x.is_contiguous(), "a tensor with gaps");
  TWOBW_ASSERT(x.element_size() == sizeof(T), "a tensor of {}", c10::toString(x.scalar_type()));
  auto* data = static_cast<T*>(x.data_ptr());
  TWOBW_ASSERT(reinterpret_cast<std::uintptr_t>(data) % 16 == 0 || x.size(-1) * x.element_size() % 16 != 0,
               "a tensor that begins between packs");
  return data;
}

// All dimensions but the last as one. A view where x has no gaps, else a copy.
at::Tensor rows_of(const at::Tensor& x);
int width_of(const at::Tensor& x);  // elements in a row

// On the device of `like`, not filled.
at::Tensor floats(std::int64_t count, const at::Tensor& like);

// Where the gradient of a parameter is accumulated.
at::Tensor gradient_of(const at::Tensor& parameter);

// Whether a backward may follow that asks for the gradient of any of them.
bool wants_gradient(std::initializer_list<at::Tensor> inputs);

}  // namespace twobw::models::ops::cuda
