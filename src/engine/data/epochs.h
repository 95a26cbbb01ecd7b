// The order in which the windows of a file are trained on: all of them, shuffled, then all of them again in
// another order. A function of the seed and of the sequence's number since the run began, so it needs no
// place to be remembered, and stages, replicas and microbatches do not show in it.
#pragma once

#include <cstdint>

#include "core/base/random.h"

namespace twobw::data {

// Of `windows`, at least one, that which the `sequence`-th sequence is made of.
inline std::int64_t window_of(std::uint64_t seed, std::int64_t windows, std::int64_t sequence) {
  const std::int64_t epoch = sequence / windows, place = sequence % windows;
  const Permutation order(static_cast<std::uint64_t>(windows), random_key(seed, hash_text("epoch"), epoch));
  return static_cast<std::int64_t>(order(static_cast<std::uint64_t>(place)));
}

}  // namespace twobw::data
