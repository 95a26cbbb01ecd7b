#include "device/arena.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>

namespace twobw::device {
namespace {

constexpr std::size_t kKi = 1024;

// Memory that may run out.
struct Store {
  std::size_t left = 0;
  int pages = 0;

  Arena::Source source() {
    return {.take =
                [this](std::size_t bytes) -> void* {
                  if (bytes > left) return nullptr;
                  left -= bytes;
                  ++pages;
                  return std::aligned_alloc(512, bytes);
                },
            .give_back =
                [this](void* page) {
                  --pages;
                  std::free(page);
                }};
  }
};

TEST(Arena, UsesFreedMemoryAgain) {
  Store store{.left = 1024 * kKi};
  Arena arena(store.source(), 64 * kKi);
  void* first = arena.allocate(10 * kKi);
  void* second = arena.allocate(20 * kKi);
  EXPECT_EQ(arena.in_use(), 30 * kKi);
  arena.free(first);
  EXPECT_EQ(arena.allocate(10 * kKi), first);
  arena.free(second);
  EXPECT_EQ(arena.allocate(20 * kKi), second);
  EXPECT_EQ(arena.reserved(), 64 * kKi);
  EXPECT_EQ(store.pages, 1);
}

TEST(Arena, JoinsFreeNeighbours) {
  Store store{.left = 64 * kKi};
  Arena arena(store.source(), 64 * kKi);
  std::vector<void*> parts;
  for (int i = 0; i < 4; ++i) parts.push_back(arena.allocate(16 * kKi));
  EXPECT_EQ(arena.largest_free(), 0u);
  arena.free(parts[1]);
  arena.free(parts[3]);
  EXPECT_EQ(arena.largest_free(), 16 * kKi);
  arena.free(parts[2]);
  EXPECT_EQ(arena.largest_free(), 48 * kKi);
  arena.free(parts[0]);
  EXPECT_EQ(arena.allocate(64 * kKi), parts[0]);
}

TEST(Arena, TakesTheBestFit) {
  Store store{.left = 64 * kKi};
  Arena arena(store.source(), 64 * kKi);
  void* large = arena.allocate(20 * kKi);
  arena.allocate(1 * kKi);
  void* small = arena.allocate(8 * kKi);
  arena.allocate(1 * kKi);
  arena.free(large);
  arena.free(small);
  EXPECT_EQ(arena.allocate(7 * kKi), small);
}

TEST(Arena, SaysWhenThereIsNoMore) {
  Store store{.left = 100 * kKi};
  Arena arena(store.source(), 64 * kKi);
  EXPECT_NE(arena.allocate(60 * kKi), nullptr);
  EXPECT_NE(arena.allocate(30 * kKi), nullptr);  // a page of its own size: no room for a whole one
  EXPECT_EQ(arena.allocate(30 * kKi), nullptr);
  EXPECT_EQ(arena.in_use(), 90 * kKi);
}

TEST(Arena, GivesEverythingBack) {
  Store store{.left = 1024 * kKi};
  {
    Arena arena(store.source(), 4 * kKi);
    for (int i = 0; i < 20; ++i) arena.allocate(3 * kKi);
    EXPECT_EQ(store.pages, 20);
  }
  EXPECT_EQ(store.pages, 0);
}

TEST(Arena, NeverHandsOutTheSameBytesTwice) {
  Store store{.left = 1 << 24};
  Arena arena(store.source(), 64 * kKi);
  std::mt19937 dice(1);
  std::map<char*, std::size_t> used;
  std::size_t sum = 0;
  for (int i = 0; i < 20000; ++i) {
    if (!used.empty() && dice() % 2 == 0) {
      auto gone = std::next(used.begin(), static_cast<std::ptrdiff_t>(dice() % used.size()));
      arena.free(gone->first);
      sum -= gone->second;
      used.erase(gone);
      continue;
    }
    const std::size_t size = (1 + dice() % 16) * 512;
    auto* memory = static_cast<char*>(arena.allocate(size));
    ASSERT_NE(memory, nullptr);
    const auto after = used.lower_bound(memory);
    if (after != used.end()) {
      ASSERT_LE(memory + size, after->first);
    }
    if (after != used.begin()) {
      ASSERT_LE(std::prev(after)->first + std::prev(after)->second, memory);
    }
    used[memory] = size;
    sum += size;
    ASSERT_EQ(arena.in_use(), sum);
  }
}

}  // namespace
}  // namespace twobw::device
