// Matrix products on a GPU, by cublasLt: row-major, sums in float (never TF32). Nothing is allocated and
// nothing waits, so a product can be captured into a graph.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace twobw::models::cuda {

enum class Type { kFloat, kBfloat16, kHalf };

// An operand as it lies in memory: rows one after the other, `stride` elements apart.
struct Operand {
  const void* data = nullptr;
  std::int64_t stride = 0;
  bool transposed = false;  // memory holds the transpose of what enters the product
  std::int64_t apart = 0;   // elements between those of one product of a batch and of the next
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
  // So many products of one shape; more than one have nothing added and no bias.
  int batch = 1;
  std::int64_t out_apart = 0;
};

// For the multiprocessors and with the workspace of the stream's context (engine/device/gpu.h). The same
// product is made in the same way on every stream with as many. Throws RunError.
void multiply(const Product& product, cudaStream_t stream);

}  // namespace twobw::models::cuda
