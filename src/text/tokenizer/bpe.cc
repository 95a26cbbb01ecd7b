#include "text/tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <queue>

namespace twobw::tokenizer {
namespace {

// Longest word for which scanning all pairs is faster than a heap.
constexpr std::size_t kShort = 48;

void merge_short(const MergeTable& merges, std::vector<Id>& ids) {
  std::array<Merge, kShort> pairs;  // pairs[i]: of ids i and i+1
  std::size_t size = ids.size();
  for (std::size_t i = 0; i + 1 < size; ++i) pairs[i] = merges.find(ids[i], ids[i + 1]);
  while (size > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < size; ++i) {
      if (pairs[i] < pairs[best]) best = i;
    }
    if (pairs[best] == kNoMerge) break;
    ids[best] = merged_id(pairs[best]);
    --size;
    std::copy(ids.begin() + static_cast<std::ptrdiff_t>(best) + 2,
              ids.begin() + static_cast<std::ptrdiff_t>(size) + 1,
              ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    std::copy(pairs.begin() + best + 1, pairs.begin() + size, pairs.begin() + best);
    if (best > 0) pairs[best - 1] = merges.find(ids[best - 1], ids[best]);
    if (best + 1 < size) pairs[best] = merges.find(ids[best], ids[best + 1]);
  }
  ids.resize(size);
}

// Linked list of tokens and a heap of their merges. An outdated merge is dropped when it reaches the top of
// the heap, if its pair has another merge or none.
class LongWord {
 public:
  LongWord(const MergeTable& merges, std::vector<Id>& ids) : merges_(merges), ids_(ids), links_(ids.size()) {
    const auto size = static_cast<std::int64_t>(ids.size());
    for (std::int64_t i = 0; i < size; ++i) links_[static_cast<std::size_t>(i)] = {i - 1, i + 1};
    for (std::int64_t i = 0; i + 1 < size; ++i) offer(i);
  }

  void merge() {
    while (!heap_.empty()) {
      const Candidate best = heap_.top();
      heap_.pop();
      if (pair_at(best.left) != best.merge) continue;
      const std::int64_t gone = link(best.left).next;
      ids_[static_cast<std::size_t>(best.left)] = merged_id(best.merge);
      ids_[static_cast<std::size_t>(gone)] = kGone;
      link(best.left).next = link(gone).next;
      if (has(link(gone).next)) link(link(gone).next).previous = best.left;
      offer(best.left);
      if (link(best.left).previous >= 0) offer(link(best.left).previous);
    }
    std::erase(ids_, kGone);
  }

 private:
  struct Link {
    std::int64_t previous, next;
  };
  struct Candidate {
    Merge merge;
    std::int64_t left;
    bool operator>(const Candidate& other) const {
      return merge != other.merge ? merge > other.merge : left > other.left;
    }
  };
  static constexpr Id kGone = -1;

  Link& link(std::int64_t at) { return links_[static_cast<std::size_t>(at)]; }
  bool has(std::int64_t at) const { return at < static_cast<std::int64_t>(ids_.size()); }

  Merge pair_at(std::int64_t left) {
    const std::int64_t right = link(left).next;
    if (ids_[static_cast<std::size_t>(left)] == kGone || !has(right)) return kNoMerge;
    return merges_.find(ids_[static_cast<std::size_t>(left)], ids_[static_cast<std::size_t>(right)]);
  }

  void offer(std::int64_t left) {
    const Merge merge = pair_at(left);
    if (merge != kNoMerge) heap_.push({merge, left});
  }

  const MergeTable& merges_;
  std::vector<Id>& ids_;
  std::vector<Link> links_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap_;
};

}  // namespace

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

std::vector<Id> ByteIds::operator()(std::string_view word) const {
  std::vector<Id> found;
  found.reserve(word.size());
  bool was_unknown = false;
  for (const char byte : word) {
    const Id id = ids[static_cast<std::uint8_t>(byte)];
    if (id != kNone) {
      found.push_back(id);
    } else if (unknown && !(fuse_unknown && was_unknown)) {
      found.push_back(*unknown);
    }
    was_unknown = id == kNone;
  }
  return found;
}

void merge_word(const MergeTable& merges, std::vector<Id>& ids) {
  if (ids.size() <= kShort) {
    merge_short(merges, ids);
  } else {
    LongWord(merges, ids).merge();
  }
}

}  // namespace twobw::tokenizer
