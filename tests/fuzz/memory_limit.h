// A limit for allocations by operator new, which this program replaces.
#pragma once

#include <cstddef>

namespace twobw::fuzz {

// While it exists, at most `bytes` more may be allocated at a time; further allocations throw std::bad_alloc.
// One object at a time, in one thread.
class MemoryLimit {
 public:
  explicit MemoryLimit(std::size_t bytes);
  ~MemoryLimit();
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

  // True if an allocation failed; the code in between may have caught the exception.
  bool exceeded() const;
};

}  // namespace twobw::fuzz
