// Common parts of the operations in ops_cuda.h: the stream, the types of kernels, the layout of tensors, and
// matrix products.
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

// The calling thread's stream; in a backward on LibTorch's thread, the stream of the forward.
cudaStream_t current_stream();

// Whether the type has 16 bits. Asserts that it is float, bfloat16 or half.
bool is_narrow(const at::Tensor& x);

// Throws RunError if the last launch failed.
void check_launch();

// Calls back with a value of x's type, to launch a kernel.
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

// The elements of a contiguous tensor. Kernels read packs of 16 bytes if rows consist of them; asserts the
// alignment for it.
template <typename T>
T* data_of(const at::Tensor& x) {
  TWOBW_ASSERT(x.is_contiguous(), "a tensor with gaps");
  TWOBW_ASSERT(x.element_size() == sizeof(T), "a tensor of {}", c10::toString(x.scalar_type()));
  auto* data = static_cast<T*>(x.data_ptr());
  TWOBW_ASSERT(reinterpret_cast<std::uintptr_t>(data) % 16 == 0 || x.size(-1) * x.element_size() % 16 != 0,
               "a tensor that begins between packs");
  return data;
}

// x as a matrix of its last dimension: a view if x is contiguous, else a copy.
at::Tensor rows_of(const at::Tensor& x);
int width_of(const at::Tensor& x);  // elements in a row

// Uninitialized floats on the device of `like`.
at::Tensor floats(std::int64_t count, const at::Tensor& like);

// The tensor that accumulates the gradient of a parameter.
at::Tensor gradient_of(const at::Tensor& parameter);

// Whether a backward may need the gradient of any of them.
bool wants_gradient(std::initializer_list<at::Tensor> inputs);

// A matrix with contiguous rows, or a batch of them. Refers to the tensor.
struct Matrix {
  const at::Tensor& tensor;
  bool transposed = false;

  std::int64_t rows() const { return tensor.size(transposed ? -1 : -2); }
  std::int64_t columns() const { return tensor.size(transposed ? -2 : -1); }
};

// Terms added to a single product, of its type; undefined: none.
struct Added {
  at::Tensor matrix{};  // of the product's shape; possibly its output
  at::Tensor bias{};    // added to every row
};

// out = a b + added, for each product of a batch.
void multiply_into(const at::Tensor& out, const Matrix& a, const Matrix& b, const Added& added = {});

// The weight's gradient += a^T b.
void accumulate_product(const at::Tensor& weight, const at::Tensor& a, const at::Tensor& b);
// The bias's gradient += the sums of the columns.
void accumulate_sum(const at::Tensor& bias, const at::Tensor& grad_rows);

}  // namespace twobw::models::ops::cuda
