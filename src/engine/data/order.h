// The order of training examples: a shuffle per epoch, length buckets, and a blend of several corpora. A pure
// function of seed and sequence number, so stages, replicas and resumed runs agree without shared state.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/base/random.h"

namespace twobw::data {

// The window of the `sequence`-th sequence since the start of the run: every epoch is a new shuffle of all
// `windows` (at least 1).
inline std::int64_t window_of(std::uint64_t seed, std::int64_t windows, std::int64_t sequence) {
  const std::int64_t epoch = sequence / windows, place = sequence % windows;
  const Permutation order(static_cast<std::uint64_t>(windows), random_key(seed, hash_text("epoch"), epoch));
  return static_cast<std::int64_t>(order(static_cast<std::uint64_t>(place)));
}

// Buckets per pool. A pool is a stretch of a shuffled epoch.
inline constexpr std::int64_t kBuckets = 32;

// Sorts a pool by length, cuts it into buckets of `bucket` examples and shuffles the buckets, so that
// microbatches have little padding. The longest examples, which fill no bucket, come last.
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

// Interleaves corpora by weight in a periodic pattern: every prefix has each corpus's share to within one
// sequence, and a period has it exactly.
class Blend {
 public:
  // At least one weight, each at least a millionth of their sum. Weights are exact if a pattern of at most
  // kLongest sequences represents them (0.7 and 0.3), else rounded to a millionth of the sum.
  explicit Blend(const std::vector<double>& weights);

  struct Place {
    std::size_t corpus;
    std::int64_t number;  // sequence within the corpus
  };
  Place operator()(std::int64_t sequence) const;

  static constexpr std::int64_t kLongest = 1 << 20;
  std::int64_t period() const { return static_cast<std::int64_t>(turns_.size()); }

 private:
  struct Turn {
    std::int32_t corpus;
    std::int32_t number;  // within the period
  };
  std::vector<std::int64_t> parts_;  // sequences of each corpus in a period
  std::vector<Turn> turns_;
};

}  // namespace twobw::data
