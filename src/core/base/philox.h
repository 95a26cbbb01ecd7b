// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011): random
// bits as a function of a key and a counter, so that any thread of any device draws those of any place.
#pragma once

#include <cstdint>

#include "core/base/host_device.h"

namespace twobw {

// A counter, or the bits that are drawn for it.
struct PhiloxWords {
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

// The key of the round after so many.
TWOBW_HOST_DEVICE Key key_after(Key key, std::uint32_t rounds) {
  return {key.k0 + rounds * 0x9e3779b9u, key.k1 + rounds * 0xbb67ae85u};
}

}  // namespace philox

// Written out, so that a loop over counters vectorises.
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

}  // namespace twobw
