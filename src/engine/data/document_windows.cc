#include "engine/data/document_windows.h"

#include <algorithm>

namespace twobw::data {

DocumentWindows::DocumentWindows(const std::vector<std::int64_t>& ends, std::int64_t size) : size_(size) {
  constexpr std::int64_t kLeast = 2;
  std::int64_t begin = 0;
  for (const std::int64_t end : ends) {
    const std::int64_t length = end - begin;
    const std::int64_t windows = length / size + (length % size >= kLeast ? 1 : 0);
    if (windows > 0) documents_.push_back({.begin = begin, .length = length, .last = count() + windows});
    begin = end;
  }
}

DocumentWindows::Window DocumentWindows::window(std::int64_t number) const {
  const auto found = std::ranges::upper_bound(documents_, number, {}, &Document::last);
  const std::int64_t document = found - documents_.begin();
  const std::int64_t offset = (number - first(document)) * size_;
  return {.begin = found->begin + offset,
          .length = std::min(size_, found->length - offset),
          .document = document};
}

}  // namespace twobw::data
