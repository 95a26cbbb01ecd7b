// A shuffle of 0 to size-1 that needs no table: the place of every number is computed. A Feistel network
// (Luby and Rackoff 1988) permutes the numbers of an even number of bits; where it leads to size or beyond,
// it is followed on until it comes back below (cycle walking), which takes fewer than four steps on average.
#pragma once

#include <bit>
#include <cstdint>

#include "core/base/random.h"

namespace twobw {

class Permutation {
 public:
  // `size` is at least 1. Another key, another shuffle.
  constexpr Permutation(std::uint64_t size, std::uint64_t key)
      : size_(size), key_(key), half_((std::bit_width(size - 1) + 1) / 2) {}

  constexpr std::uint64_t operator()(std::uint64_t index) const {
    do index = permute(index);
    while (index >= size_);
    return index;
  }

 private:
  constexpr std::uint64_t permute(std::uint64_t bits) const {
    constexpr int kRounds = 6;
    const std::uint64_t mask = (std::uint64_t{1} << half_) - 1;
    std::uint64_t left = bits >> half_, right = bits & mask;
    for (int round = 0; round < kRounds; ++round) {
      const std::uint64_t next = left ^ (random_key(key_, round, right) & mask);
      left = right;
      right = next;
    }
    return left << half_ | right;
  }

  std::uint64_t size_, key_;
  int half_;  // of the bits; at most 32
};

}  // namespace twobw
