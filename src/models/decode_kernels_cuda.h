// Steps of a decoder on a GPU, bound by reading weights and kept keys and values. T is float, __nv_bfloat16
// or __half; sums are made in float, in an order that the sizes fix. Nothing is allocated and nothing waits,
// so all of it can be captured into a graph, several steps too; there kernels begin before those before them
// have ended (models/cuda/early_begin.cuh).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace twobw::models::cuda {

inline constexpr int kMostFewRows = 8;

// Whether kernels that this thread captures begin early where they can: yes, but for measurements.
bool& begins_early();

// out [rows, columns] = x [rows, in] weight^T + added + bias, in this order; `weight` is [columns, in]. What
// a row gets depends on that row alone. In a graph, weights and gains were written before the graph began.
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
// Whether there is a kernel: rows of whole packs of 16 bytes, few of them, and room for them in a block.
template <typename T>
bool few_rows_fits(std::int64_t rows, std::int64_t in, bool normed = false);
template <typename T>
void few_rows_product(const FewRows<T>& product, cudaStream_t stream);

// One token of every row: its key and value are kept at the place `seen`, and its queries attend to those up
// to it. What a row gets depends on that row alone. In a graph, `seen` and what is kept of the places before
// it were written before the graph began, or up to a take_likeliest() in it.
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
  int rows = 0, queries = 0, key_heads = 0, size = 0;
  int splits = 1;  // from 1 to cached_attention_splits()
  std::int64_t places = 0;
};
inline constexpr int kLargestCachedHead = 512;
// The most parts that places are dealt out to, so that many multiprocessors work.
int cached_attention_splits(std::int64_t places);
std::int64_t cached_attention_partials(int rows, int queries, int size, int splits);
template <typename T>
void cached_attention(const CachedAttention<T>& attention, cudaStream_t stream);

// Of every row of logits [rows, classes] the class of the greatest, the first of these, into `tokens`, and
// one more into `seen`, which stops at places - 1. NaN counts as the greatest.
template <typename T>
struct Likeliest {
  const T* logits = nullptr;
  std::int64_t* tokens = nullptr;      // [rows]
  std::int64_t* told = nullptr;        // [rows], of the host, which sees them at once; null: not wanted
  std::int64_t* seen = nullptr;        // [rows]
  std::int64_t places = 1;             // of the cache
  unsigned long long* room = nullptr;  // [rows, 2]: 0, and left so
  int rows = 0;
  std::int64_t classes = 0;
};
template <typename T>
void take_likeliest(const Likeliest<T>& likeliest, cudaStream_t stream);

}  // namespace twobw::models::cuda
