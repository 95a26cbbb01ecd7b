// Bounds what is allocated by operator new, of which this program has its own.
#pragma once

#include <cstddef>

namespace twobw::fuzz {

// While it lives, at most so many bytes may be allocated at once besides those that are already. What goes
// beyond throws std::bad_alloc. One at a time, in one thread.
class MemoryLimit {
 public:
  explicit MemoryLimit(std::size_t bytes);
  ~MemoryLimit();
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

  // Whether that happened; the code in between may have caught it.
  bool exceeded() const;
};

}  // namespace twobw::fuzz
