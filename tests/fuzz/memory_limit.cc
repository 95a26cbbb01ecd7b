#include "tests/fuzz/memory_limit.h"

#include <malloc.h>

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>

namespace twobw::fuzz {
namespace {

constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();
std::size_t bytes_alive = 0;
std::size_t most_bytes = kUnlimited;
bool limit_exceeded = false;

void* allocate(std::size_t size, std::size_t alignment) {
  const bool fits =
      most_bytes == kUnlimited || (bytes_alive <= most_bytes && size <= most_bytes - bytes_alive);
  if (!fits) {
    limit_exceeded = true;
    return nullptr;
  }
  void* memory = nullptr;
  if (alignment <= alignof(std::max_align_t)) {
    memory = std::malloc(size == 0 ? 1 : size);
  } else if (size <= kUnlimited - alignment) {
    memory = std::aligned_alloc(alignment, (size / alignment + 1) * alignment);
  }
  if (memory != nullptr) bytes_alive += malloc_usable_size(memory);
  return memory;
}

void* allocate_or_throw(std::size_t size, std::size_t alignment = 1) {
  void* const memory = allocate(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void release(void* memory) {
  if (memory != nullptr) bytes_alive -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

MemoryLimit::MemoryLimit(std::size_t bytes) {
  limit_exceeded = false;
  most_bytes = bytes_alive + bytes;
}

MemoryLimit::~MemoryLimit() {
  most_bytes = kUnlimited;
}

bool MemoryLimit::exceeded() const {
  return limit_exceeded;
}

}  // namespace twobw::fuzz

// All variants for single objects, which containers use: a sanitizer replaces each by its own. Arrays are not
// counted under a sanitizer; elsewhere their operators call these.
void* operator new(std::size_t size) {
  return twobw::fuzz::allocate_or_throw(size);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return twobw::fuzz::allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return twobw::fuzz::allocate(size, 1);
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return twobw::fuzz::allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  twobw::fuzz::release(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  twobw::fuzz::release(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  twobw::fuzz::release(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  twobw::fuzz::release(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  twobw::fuzz::release(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  twobw::fuzz::release(memory);
}
