// Decoding on CPUs and GPUs: attention over kept keys and values, and products with few rows.
#include <ATen/Parallel.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "engine/models/decoding.h"
#include "engine/models/kernels.h"
#include "engine/models/ops.h"

namespace twobw::models::ops {
namespace {

// Keys or values [b, heads of keys, T, size] of packed qkv, as they lie there.
Tensor kept_part(const Tensor& qkv, const Heads& heads, int first) {
  return qkv.view({qkv.size(0), qkv.size(1), heads.all(), heads.size})
      .narrow(2, first, heads.keys)
      .transpose(1, 2);
}

void keep_first(const Tensor& qkv, const Heads& heads, const KeyValues& cache) {
  const std::int64_t length = qkv.size(1);
  cache.keys.narrow(2, 0, length).copy_(kept_part(qkv, heads, heads.queries));
  cache.values.narrow(2, 0, length).copy_(kept_part(qkv, heads, heads.queries + heads.keys));
}

Tensor attend_on_cpu(const Tensor& qkv, const Heads& heads, const Step& step) {
  const std::int64_t rows = qkv.size(0), size = heads.size, width = heads.all() * size;
  const std::int64_t places = step.cache.keys.size(2), group = heads.queries / heads.keys;
  const auto* seen = step.seen.const_data_ptr<std::int64_t>();
  const Tensor wide = widened(qkv);
  const auto* packed = wide.const_data_ptr<float>();
  auto *keys = step.cache.keys.mutable_data_ptr<float>(),
       *values = step.cache.values.mutable_data_ptr<float>();
  Tensor out = at::empty({rows, 1, heads.queries * size}, wide.options());
  auto* mixed = out.mutable_data_ptr<float>();
  for (std::int64_t row = 0; row < rows; ++row)
    TWOBW_ASSERT(seen[row] >= 0 && seen[row] < places, "token {} of {}", seen[row], places);
  // A thread some heads of keys, with all queries that share them.
  const std::int64_t grain = 1 + kGrain / (size * places);
  at::parallel_for(0, rows * heads.keys, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> scores(static_cast<std::size_t>(places));
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t row = item / heads.keys, head = item % heads.keys;
      const float* of_row = packed + row * width;
      float *own_keys = keys + item * places * size, *own_values = values + item * places * size;
      const float* key = of_row + (heads.queries + head) * size;
      std::copy_n(key, size, own_keys + seen[row] * size);
      std::copy_n(key + heads.keys * size, size, own_values + seen[row] * size);
      for (std::int64_t i = head * group; i < (head + 1) * group; ++i) {
        models::attend(of_row + i * size, own_keys, own_values, scores.data(),
                       mixed + (row * heads.queries + i) * size, seen[row] + 1, size);
      }
    }
  });
  return out.to(qkv.scalar_type());
}

// Rows stand at places of their own: as one sequence, whose places have their angles.
Tensor turn_rows(const Tensor& qkv, const Heads& heads, const Tensor& angles, const Tensor& seen) {
  const Tensor in_a_row = qkv.view({1, qkv.size(0), qkv.size(2)});
  return ops::rotate(in_a_row, heads, angles.index_select(0, seen)).view(qkv.sizes());
}

// Queries that share a head of keys attend as that head's sequence. All shapes are fixed, as a graph needs.
Tensor attend_on_gpu(const Tensor& qkv, const Heads& heads, const Step& step) {
  const Tensor &keys = step.cache.keys, &values = step.cache.values;
  const std::int64_t rows = qkv.size(0), size = heads.size, places = keys.size(2),
                     group = heads.queries / heads.keys;
  const Tensor seen = step.seen.view({rows, 1, 1, 1}), place = seen.expand({rows, heads.keys, 1, size});
  keys.scatter_(2, place, kept_part(qkv, heads, heads.queries));
  values.scatter_(2, place, kept_part(qkv, heads, heads.queries + heads.keys));
  const Tensor mask = at::arange(places, seen.options()).le(seen).expand({rows, heads.keys, group, places});
  const Tensor queries = qkv.narrow(2, 0, heads.queries * size).reshape({rows, heads.keys, group, size});
  return at::scaled_dot_product_attention(queries, keys, values, mask)
      .reshape({rows, 1, heads.queries * size});
}

}  // namespace

Tensor cached_attention(const Tensor& qkv, const Heads& heads, const Step& step, const Tensor& angles) {
  const KeyValues& cache = step.cache;
  TWOBW_ASSERT(cache.keys.is_contiguous() && cache.values.is_contiguous(), "a cache with gaps");
  Tensor packed = qkv.contiguous();
  if (step.begins()) {
    if (angles.defined()) packed = ops::rotate(packed, heads, angles);
    keep_first(packed, heads, cache);
    return ops::grouped_attention(packed, heads);
  }
  TWOBW_ASSERT(packed.size(1) == 1, "{} tokens at once in a step", packed.size(1));
  if (angles.defined()) packed = turn_rows(packed, heads, angles, step.seen);
  return packed.is_cuda() ? attend_on_gpu(packed, heads, step) : attend_on_cpu(packed, heads, step);
}

namespace {
thread_local bool decoding = false;
}

DecodingScope::DecodingScope() : outer_(std::exchange(decoding, true)) {}

DecodingScope::~DecodingScope() {
  decoding = outer_;
}

bool is_step(const Tensor& x) {
  return decoding && x.dim() == 3 && x.size(1) == 1;
}

Tensor skinny_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor rows = widened(x), matrix = widened(weight);
  const Tensor constant = bias.defined() ? widened(bias) : Tensor();
  const std::int64_t count = rows.size(0), in = matrix.size(1), out = matrix.size(0);
  Tensor result = at::empty({count, 1, out}, rows.options());
  const float *from = rows.const_data_ptr<float>(), *weights = matrix.const_data_ptr<float>();
  const float* added = bias.defined() ? constant.const_data_ptr<float>() : nullptr;
  float* to = result.mutable_data_ptr<float>();
  at::parallel_for(0, out, 1 + kGrain / in, [&](std::int64_t begin, std::int64_t end) {
    models::skinny_gemm(
        {.x = from, .weight = weights, .bias = added, .out = to, .rows = count, .in = in, .columns = out},
        begin, end);
  });
  return result.to(x.scalar_type());
}

}  // namespace twobw::models::ops
