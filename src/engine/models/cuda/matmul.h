// Matrix products on a GPU by cublasLt: row-major, accumulated in float (never TF32). They neither allocate
// nor wait, so that graphs can capture them.
#pragma once

#include <cuda_runtime_api.h>

#include <compare>
#include <cstdint>

namespace twobw::models::cuda {

enum class Type { kFloat, kBfloat16, kHalf };

// An operand in memory: rows `stride` elements apart.
struct Operand {
  const void* data = nullptr;
  std::int64_t stride = 0;
  bool transposed = false;  // memory holds the transpose of the operand
  std::int64_t apart = 0;   // elements between the matrices of a batch

  auto operator<=>(const Operand&) const = default;
};

// out [m, n] = a [m, k] b [k, n] + beta added + bias, in this order.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  Operand a, b;
  Type in = Type::kFloat;    // of a and b
  Type type = Type::kFloat;  // of out, added and bias; a product of float is float
  void* out = nullptr;
  std::int64_t out_stride = 0;
  const void* added = nullptr;  // may be out itself; null: none
  std::int64_t added_stride = 0;
  float beta = 1.0f;
  const void* bias = nullptr;  // [n]; null: none
  // Number of products of this shape; a batch has no added matrix and no bias.
  int batch = 1;
  std::int64_t out_apart = 0;

  auto operator<=>(const Product&) const = default;
};

// Tuned for the multiprocessors of the stream's context (engine/device/gpu.h), with its workspace: identical
// on streams with the same number of them. Throws RunError.
void multiply(const Product& product, cudaStream_t stream);

}  // namespace twobw::models::cuda
