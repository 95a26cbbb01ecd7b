// Byte-pair encoding of one word: the pair of neighbours with the lowest rank merges, the leftmost of equals,
// until none does.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "text/tokenizer/merge_table.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::tokenizer {

// Tokens of the single bytes; kNone: there is none.
struct ByteIds {
  static constexpr Id kNone = -1;
  std::array<Id, 256> ids;
  std::optional<Id> unknown;  // stands for such a byte; else the byte is dropped
  bool fuse_unknown = false;  // several in a row are one

  std::vector<Id> operator()(std::string_view word) const;
};

// Merges in place. The time is n log n for long words.
void merge_word(const MergeTable& merges, std::vector<Id>& ids);

}  // namespace twobw::tokenizer
