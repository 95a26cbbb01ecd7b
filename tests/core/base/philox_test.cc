#include "core/base/random.h"

#include <gtest/gtest.h>

#include <array>

namespace twobw {
namespace {

using Words = std::array<std::uint32_t, 4>;

Words drawn(const Words& counter, std::uint32_t k0, std::uint32_t k1) {
  const PhiloxWords words =
      philox4x32({counter[0], counter[1], counter[2], counter[3]}, std::uint64_t{k1} << 32 | k0);
  return {words.x0, words.x1, words.x2, words.x3};
}

// The known answers of Random123, its authors' library, for philox4x32 with 10 rounds.
TEST(Philox, HasTheKnownAnswers) {
  EXPECT_EQ(drawn({0, 0, 0, 0}, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(drawn({~0u, ~0u, ~0u, ~0u}, ~0u, ~0u), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(drawn({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

}  // namespace
}  // namespace twobw
