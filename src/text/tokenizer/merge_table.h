// Which pairs of tokens merge, in which order, into what: a flat hash table, since BPE asks it for every two
// neighbours of every word.
#pragma once

#include <cstdint>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace twobw::tokenizer {

// Rank above, merged id below: the smaller one merges first.
using Merge = std::uint64_t;
constexpr Merge kNoMerge = ~Merge{0};
inline Id merged_id(Merge merge) {
  return static_cast<Id>(merge & 0xFFFFFFFF);
}

class MergeTable {
 public:
  explicit MergeTable(std::size_t merges);

  // The last of two merges of one pair stays, as in the libraries that wrote the files. At most as many as
  // announced.
  void add(Id left, Id right, std::uint32_t rank, Id merged);

  // kNoMerge: the pair does not merge.
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

}  // namespace twobw::tokenizer
