#include "text/tokenizer/merge_table.h"

#include <bit>

namespace twobw::tokenizer {

MergeTable::MergeTable(std::size_t merges)
    : slots_(std::bit_ceil(merges * 2 + 2), Slot{kFree, kNoMerge}),
      mask_(slots_.size() - 1),
      shift_(64 - std::countr_zero(slots_.size())) {}

void MergeTable::add(Id left, Id right, std::uint32_t rank, Id merged) {
  const std::uint64_t pair = key(left, right);
  std::size_t slot = home(pair);
  while (slots_[slot].pair != kFree && slots_[slot].pair != pair) slot = (slot + 1) & mask_;
  slots_[slot] = {pair, static_cast<Merge>(rank) << 32 | static_cast<std::uint32_t>(merged)};
}

}  // namespace twobw::tokenizer
