#include "device/arena.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace twobw::device {
namespace {

constexpr std::size_t kAlignment = 512;  // as CUDA aligns, more than any kernel needs

std::size_t rounded(std::size_t bytes) {
  return std::max<std::size_t>(1, (bytes + kAlignment - 1) / kAlignment) * kAlignment;
}

}  // namespace

Arena::Arena(Source source, std::size_t page) : source_(std::move(source)), page_(rounded(page)) {}

Arena::~Arena() {
  for (void* page : pages_) source_.give_back(page);
}

void* Arena::allocate(std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  auto best = free_.lower_bound({size, nullptr});
  if (best == free_.end()) {
    if (!grow(size)) return nullptr;
    best = free_.lower_bound({size, nullptr});
  }
  const auto part = parts_.find(best->second);
  remove_free(part);
  part->second.free = false;
  if (part->second.size > size) {
    const auto rest = parts_.emplace(part->first + size, Part{.size = part->second.size - size, .free = true});
    part->second.size = size;
    add_free(rest.first);
  }
  in_use_ += size;
  return part->first;
}

void Arena::free(void* memory) {
  auto part = parts_.find(static_cast<char*>(memory));
  TWOBW_ASSERT(part != parts_.end() && !part->second.free, "memory that was not handed out is freed");
  in_use_ -= part->second.size;
  part->second.free = true;
  const auto next = std::next(part);
  if (next != parts_.end() && next->second.free && !next->second.begins_page) {
    remove_free(next);
    part->second.size += next->second.size;
    parts_.erase(next);
  }
  if (!part->second.begins_page && part != parts_.begin()) {
    const auto before = std::prev(part);
    if (before->second.free) {
      remove_free(before);
      before->second.size += part->second.size;
      parts_.erase(part);
      part = before;
    }
  }
  add_free(part);
}

std::size_t Arena::largest_free() const {
  return free_.empty() ? 0 : free_.rbegin()->first;
}

bool Arena::grow(std::size_t bytes) {
  std::size_t size = std::max(bytes, page_);
  void* page = source_.take(size);
  if (page == nullptr && size > bytes) page = source_.take(size = bytes);
  if (page == nullptr) return false;
  pages_.push_back(page);
  reserved_ += size;
  add_free(
      parts_.emplace(static_cast<char*>(page), Part{.size = size, .free = true, .begins_page = true}).first);
  return true;
}

void Arena::add_free(Parts::iterator part) {
  free_.emplace(part->second.size, part->first);
}

void Arena::remove_free(Parts::iterator part) {
  free_.erase({part->second.size, part->first});
}

}  // namespace twobw::device
