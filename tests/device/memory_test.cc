#include "device/memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "device/cpu.h"

namespace twobw::device {
namespace {

using at::Tensor;

class Memory : public testing::Test {
 protected:
  static void SetUpTestSuite() { initialize(); }
};

Tensor floats(std::int64_t count) {
  return at::empty({count}, at::kFloat);
}

TEST_F(Memory, IsCountedWhileItLives) {
  MemoryPool pool;
  PoolScope scope(pool);
  {
    const Tensor a = floats(1000);
    EXPECT_EQ(pool.live_bytes(), 4000);
    const Tensor b = floats(10);
    EXPECT_EQ(pool.live_bytes(), 4040);
  }
  EXPECT_EQ(pool.live_bytes(), 0);
  EXPECT_EQ(pool.peak_bytes(), 4040);
}

TEST_F(Memory, TheHighestMarkStaysUntilItIsReset) {
  MemoryPool pool;
  PoolScope scope(pool);
  const Tensor stays = floats(100);
  { const Tensor goes = floats(900); }
  { const Tensor less = floats(100); }
  EXPECT_EQ(pool.live_bytes(), 400);
  EXPECT_EQ(pool.peak_bytes(), 4000);
  pool.reset_peak();
  EXPECT_EQ(pool.peak_bytes(), 400);
  { const Tensor again = floats(50); }
  EXPECT_EQ(pool.peak_bytes(), 600);
}

TEST_F(Memory, EveryPoolCountsItsOwn) {
  MemoryPool outer, inner;
  PoolScope outer_scope(outer);
  const Tensor a = floats(1);
  Tensor b;
  {
    PoolScope inner_scope(inner);
    b = floats(2);
  }
  const Tensor c = floats(4);
  EXPECT_EQ(outer.live_bytes(), 4 + 16);
  EXPECT_EQ(inner.live_bytes(), 8);
  b.reset();  // outside its pool's scope
  EXPECT_EQ(outer.live_bytes(), 4 + 16);
  EXPECT_EQ(inner.live_bytes(), 0);
}

TEST_F(Memory, OutsideEveryPoolNothingIsCounted) {
  MemoryPool pool;
  { PoolScope scope(pool); }
  const Tensor a = floats(1000);
  EXPECT_EQ(pool.live_bytes(), 0);
  EXPECT_EQ(pool.peak_bytes(), 0);
}

TEST_F(Memory, AScopeIsForItsThreadOnly) {
  MemoryPool pool;
  PoolScope scope(pool);
  Tensor elsewhere;
  std::thread([&] { elsewhere = floats(1000); }).join();
  EXPECT_EQ(pool.live_bytes(), 0);
}

TEST_F(Memory, AnotherThreadMayFreeIt) {
  MemoryPool mine, theirs;
  PoolScope scope(mine);
  Tensor tensor = floats(1000);
  std::thread([&, tensor = std::move(tensor)]() mutable {
    PoolScope other(theirs);
    tensor.reset();
  }).join();
  EXPECT_EQ(mine.live_bytes(), 0);
  EXPECT_EQ(theirs.live_bytes(), 0);
}

TEST_F(Memory, TensorsOutliveTheirPool) {
  auto pool = std::make_unique<MemoryPool>();
  Tensor tensor;
  {
    PoolScope scope(*pool);
    tensor = floats(1000);
    { const Tensor waits = floats(500); }  // a free block, given back with the pool
  }
  pool.reset();
  tensor.fill_(3);
  EXPECT_EQ(tensor.sum().item<double>(), 3000);
  tensor.reset();
}

TEST_F(Memory, TensorsOutliveTheThreadThatMadeThem) {
  MemoryPool pool;
  Tensor tensor;
  std::thread([&] {
    PoolScope scope(pool);
    tensor = at::ones({1000});
  }).join();
  EXPECT_EQ(pool.live_bytes(), 4000);
  EXPECT_EQ(tensor.sum().item<double>(), 1000);
  tensor.reset();
  EXPECT_EQ(pool.live_bytes(), 0);
}

TEST_F(Memory, FreedBlocksAreReused) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "under a sanitizer nothing is reused";
#endif
  MemoryPool pool;
  PoolScope scope(pool);
  Tensor tensor = floats(100'000);
  const void* first = tensor.data_ptr();
  tensor.reset();
  const Tensor again = floats(100'000);
  EXPECT_EQ(again.data_ptr(), first);
  const Tensor other = floats(100'000);  // that block is in use now
  EXPECT_NE(other.data_ptr(), first);
}

TEST_F(Memory, ABlockOfNearlyTheSameSizeIsReused) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "under a sanitizer nothing is reused";
#endif
  MemoryPool pool;
  PoolScope scope(pool);
  Tensor tensor = floats(100'000);
  const void* block = tensor.data_ptr();
  tensor.reset();
  const Tensor smaller = floats(99'900);
  EXPECT_EQ(smaller.data_ptr(), block);
  EXPECT_EQ(pool.live_bytes(), 4 * 99'900);  // what was asked for, not the block
}

TEST_F(Memory, StartsOnACacheLine) {
  MemoryPool pool;
  PoolScope scope(pool);
  for (std::int64_t count : {1, 3, 17, 1000, 12'345}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(floats(count).data_ptr()) % 64, 0u) << count;
  }
}

TEST_F(Memory, AnEmptyTensorTakesNone) {
  MemoryPool pool;
  PoolScope scope(pool);
  const Tensor empty = floats(0);
  EXPECT_EQ(pool.live_bytes(), 0);
  EXPECT_EQ(empty.numel(), 0);
}

TEST_F(Memory, KeepsItsCountBetweenThreads) {
  MemoryPool pool;
  const auto allocate = [&] {
    PoolScope scope(pool);
    std::vector<Tensor> held;
    for (int i = 0; i < 500; ++i) {
      held.push_back(floats(1 + i % 7));
      if (i % 3 == 2) held.erase(held.begin());
    }
  };
  std::thread other(allocate);
  allocate();
  other.join();
  EXPECT_EQ(pool.live_bytes(), 0);
}

}  // namespace
}  // namespace twobw::device
