// Randomness is a function of what it is for, never of who draws it or when: the same key gives the
// same numbers on any stage, in any layout, and again in a recomputation.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/host_device.h"

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

}  // namespace twobw
