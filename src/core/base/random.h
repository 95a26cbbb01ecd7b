// Random numbers as functions of a key that names their purpose, never of the thread or time that draws them:
// a key gives the same numbers on any stage, in any layout, and in a recomputation.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "core/base/attributes.h"

namespace twobw {

// splitmix64's finaliser (Steele, Lea, Flood 2014).
TWOBW_HOST_DEVICE constexpr std::uint64_t scramble(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

template <typename... Words>
constexpr std::uint64_t random_key(std::uint64_t seed, Words... words) {
  std::uint64_t key = scramble(seed);
  ((key = scramble(key ^ static_cast<std::uint64_t>(words))), ...);
  return key;
}

// FNV-1a.
constexpr std::uint64_t hash_text(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011): random
// bits as a function of a key and a counter, so that any thread of any device can draw any element.
struct PhiloxWords {  // a counter, or the bits drawn for it
  std::uint32_t x0, x1, x2, x3;
};

namespace philox {

struct Key {
  std::uint32_t k0, k1;
};

TWOBW_HOST_DEVICE PhiloxWords round(PhiloxWords x, Key key) {
  const std::uint64_t left = std::uint64_t{0xd2511f53u} * x.x0, right = std::uint64_t{0xcd9e8d57u} * x.x2;
  return {static_cast<std::uint32_t>(right >> 32) ^ x.x1 ^ key.k0, static_cast<std::uint32_t>(right),
          static_cast<std::uint32_t>(left >> 32) ^ x.x3 ^ key.k1, static_cast<std::uint32_t>(left)};
}

// The key after `rounds` rounds.
TWOBW_HOST_DEVICE Key key_after(Key key, std::uint32_t rounds) {
  return {key.k0 + rounds * 0x9e3779b9u, key.k1 + rounds * 0xbb67ae85u};
}

}  // namespace philox

// Unrolled, so that loops over counters vectorize.
TWOBW_HOST_DEVICE PhiloxWords philox4x32(PhiloxWords x, std::uint64_t key) {
  const philox::Key first{static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
  x = philox::round(x, first);
  x = philox::round(x, philox::key_after(first, 1));
  x = philox::round(x, philox::key_after(first, 2));
  x = philox::round(x, philox::key_after(first, 3));
  x = philox::round(x, philox::key_after(first, 4));
  x = philox::round(x, philox::key_after(first, 5));
  x = philox::round(x, philox::key_after(first, 6));
  x = philox::round(x, philox::key_after(first, 7));
  x = philox::round(x, philox::key_after(first, 8));
  return philox::round(x, philox::key_after(first, 9));
}

// A shuffle of 0 to size-1 without a table. A Feistel network (Luby and Rackoff 1988) permutes the numbers of
// an even number of bits; a result of at least `size` is permuted again until it is below (cycle walking), in
// fewer than four steps on average.
class Permutation {
 public:
  // `size` is at least 1. Each key gives another shuffle.
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
