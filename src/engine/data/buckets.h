// Sequences of like length after one another, so that a microbatch has little padding. The places of a
// shuffled epoch are taken in pools of kBuckets buckets: a pool is sorted by length, cut into buckets, and
// the buckets are shuffled. So an epoch still has every example once, in an order that depends on the seed
// and the lengths alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/base/random.h"

namespace twobw::data {

inline constexpr std::int64_t kBuckets = 32;  // in a pool

// A pool's examples in the order in which they are taken. What fills no bucket, at the end of an epoch, comes
// last.
template <typename LengthOf>
std::vector<std::int64_t> order_by_length(std::vector<std::int64_t> pool, std::int64_t bucket,
                                          std::uint64_t key, LengthOf length_of) {
  std::ranges::stable_sort(pool, {}, length_of);
  const std::int64_t buckets = std::ssize(pool) / bucket;
  const Permutation shuffled(static_cast<std::uint64_t>(std::max<std::int64_t>(buckets, 1)), key);
  std::vector<std::int64_t> order = pool;
  for (std::int64_t i = 0; i < buckets; ++i) {
    const auto from = static_cast<std::int64_t>(shuffled(static_cast<std::uint64_t>(i)));
    std::copy_n(pool.begin() + from * bucket, bucket, order.begin() + i * bucket);
  }
  return order;
}

}  // namespace twobw::data
