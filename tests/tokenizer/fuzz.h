// Damages the files of a tokenizer, deterministically, and opens what is left: it must load or be refused in
// one sentence.
#pragma once

#include <cstdint>
#include <string>

namespace twobw::tokenizer::testing {

struct FuzzResult {
  std::int64_t tried = 0;
  std::int64_t loaded = 0;  // the others were refused
};

// For about so many seconds, at least `least` files.
FuzzResult fuzz_tokenizers(std::uint32_t seed, double seconds, std::int64_t least);

}  // namespace twobw::tokenizer::testing
