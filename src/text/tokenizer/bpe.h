// Byte-pair encoding of one word: the adjacent pair with the lowest rank is merged, the leftmost one of
// equals, until no pair merges.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace twobw::tokenizer {

// Rank in the high half, merged id in the low half: the smaller one merges first.
using Merge = std::uint64_t;
constexpr Merge kNoMerge = ~Merge{0};
inline Id merged_id(Merge merge) {
  return static_cast<Id>(merge & 0xFFFFFFFF);
}

// Merges by pair of tokens, as a flat hash table: BPE looks up every adjacent pair of every word.
class MergeTable {
 public:
  explicit MergeTable(std::size_t merges);

  // The last merge of a pair wins, as in the libraries that wrote the files. At most `merges` calls.
  void add(Id left, Id right, std::uint32_t rank, Id merged);

  Merge find(Id left, Id right) const {
    const std::uint64_t pair = key(left, right);
    for (std::size_t slot = home(pair);; slot = (slot + 1) & mask_) {
      if (slots_[slot].pair == pair) return slots_[slot].merge;
      if (slots_[slot].pair == kFree) return kNoMerge;
    }
  }

 private:
  struct Slot {
    std::uint64_t pair;
    Merge merge;
  };
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};

  static std::uint64_t key(Id left, Id right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  std::size_t home(std::uint64_t pair) const { return (pair * 0x9E3779B97F4A7C15u) >> shift_; }

  std::vector<Slot> slots_;
  std::size_t mask_;
  int shift_;
};

// Tokens of the single bytes; kNone: no token.
struct ByteIds {
  static constexpr Id kNone = -1;
  std::array<Id, 256> ids;
  std::optional<Id> unknown;  // replaces a byte without a token; without it the byte is dropped
  bool fuse_unknown = false;  // one unknown token for a run of such bytes

  std::vector<Id> operator()(std::string_view word) const;
};

// Merges in place, in O(n log n) for long words.
void merge_word(const MergeTable& merges, std::vector<Id>& ids);

}  // namespace twobw::tokenizer
