// Steps of a decoder on a GPU, bound by reading weights and kept keys and values. T is float or
// __nv_bfloat16; sums are made in float, in an order that the sizes fix. Nothing is allocated and nothing
// waits, so all of it can be captured into a graph.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace twobw::models::cuda {

inline constexpr int kMostFewRows = 8;

// out [rows, columns] = x [rows, in] weight^T + added + bias, in this order; `weight` is [columns, in].
template <typename T>
struct FewRows {
  const T* x = nullptr;
  const T* gain = nullptr;  // [in]: x is RMS-normed first, with it; null: not
  float eps = 0;            // of the norm
  const T* weight = nullptr;
  bool gated = false;        // `weight` is [2 columns, in]: out = silu(gates) * values; normed, nothing added
  const T* bias = nullptr;   // [columns]; null: none
  const T* added = nullptr;  // [rows, columns]; null: none
  T* out = nullptr;
  int rows = 0;  // from 1 to kMostFewRows
  std::int64_t in = 0, columns = 0;
  int multiprocessors = 1;  // to keep busy
};
// Whether there is a kernel: rows of whole packs of 16 bytes, few of them, and room to norm them in.
template <typename T>
bool few_rows_fits(std::int64_t rows, std::int64_t in, bool normed = false);
template <typename T>
void few_rows_product(const FewRows<T>& product, cudaStream_t stream);

// One token of every row: its key and value are kept at the place `seen`, and its queries attend to those up
// to it.
template <typename T>
struct CachedAttention {
  const T* qkv = nullptr;              // [rows, (queries + 2 keys) size]
  T* keys = nullptr;                   // [rows, keys, places, size]
  T* values = nullptr;                 // likewise
  const std::int64_t* seen = nullptr;  // [rows], below `places`
  // Queries and keys turn by the angles of their place: [places or more, size], cosines, then sines; null:
  // they do not.
  const float* angles = nullptr;
  T* out = nullptr;          // [rows, queries size]
  float* partial = nullptr;  // room for cached_attention_partials() floats
  int* arrived = nullptr;    // [rows, queries]: 0, and left so
  int rows = 0, queries = 0, key_heads = 0, size = 0, splits = 1;
  std::int64_t places = 0;
};
inline constexpr int kLargestCachedHead = 512;
// Parts that the places are dealt out to, so that all multiprocessors work.
int cached_attention_splits(int rows, int queries, std::int64_t places, int multiprocessors);
std::int64_t cached_attention_partials(int rows, int queries, int size, int splits);
template <typename T>
void cached_attention(const CachedAttention<T>& attention, cudaStream_t stream);

}  // namespace twobw::models::cuda
