#include "engine/device/memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/device/device.h"

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

TEST_F(Memory, IsCountedByPurpose) {
  MemoryPool pool;
  PoolScope scope(pool);
  const Tensor working = floats(1);
  Tensor weights, moments;
  {
    const PurposeScope purpose(Term::Weights);
    weights = floats(10);
    {
      const PurposeScope inner(Term::Optimizer);
      moments = floats(20);
    }
    weights = floats(100);  // frees the first
  }
  const Tensor more = floats(2);
  EXPECT_EQ(pool.live_bytes(Term::Working), 4 + 8);
  EXPECT_EQ(pool.live_bytes(Term::Weights), 400);
  EXPECT_EQ(pool.live_bytes(Term::Optimizer), 80);
  EXPECT_EQ(pool.live_bytes(), 12 + 400 + 80);
  moments.reset();  // outside its scope
  EXPECT_EQ(pool.live_bytes(Term::Optimizer), 0);
}

TEST_F(Memory, PeakHasItsPurposes) {
  MemoryPool pool;
  PoolScope scope(pool);
  const auto use = [](Term purpose, int count) {
    const PurposeScope of(purpose);
    return floats(count);
  };
  const Tensor weights = use(Term::Weights, 100);
  { const Tensor inputs = use(Term::Inputs, 50), working = use(Term::Working, 7); }
  { const Tensor gradients = use(Term::Gradients, 30); }
  const Footprint peak = pool.peak();
  EXPECT_EQ(peak[Term::Weights], 400);
  EXPECT_EQ(peak[Term::Inputs], 200);
  EXPECT_EQ(peak[Term::Working], 28);
  EXPECT_EQ(peak[Term::Gradients], 0);
  EXPECT_EQ(peak.total(), static_cast<double>(pool.peak_bytes()));
}

TEST_F(Memory, ScopeSeparatesKeptFromFreedBlocks) {
  MemoryPool pool;
  PoolScope scope(pool);
  std::vector<Tensor> kept;
  for (int pass = 0; pass < 3; ++pass) {
    PurposeScope purpose(Term::Working);
    const Tensor goes = floats(1000);
    kept.push_back(floats(10));
    EXPECT_EQ(pool.live_bytes(Term::Working), 4000 + 40);
    purpose.keep_as(Term::Activations);
    EXPECT_EQ(pool.live_bytes(Term::Activations), pass * 40 + 4000 + 40);
  }
  EXPECT_EQ(pool.live_bytes(Term::Activations), 3 * 40);
  EXPECT_EQ(pool.live_bytes(Term::Working), 0);
  kept.clear();
  EXPECT_EQ(pool.live_bytes(), 0);
}

TEST_F(Memory, PeakWithinAScopeIsSplitAtItsEnd) {
  MemoryPool pool;
  PoolScope scope(pool);
  Tensor stays, later;
  {
    PurposeScope purpose(Term::Working);
    stays = floats(10);
    { const Tensor goes = floats(1000); }
    later = floats(20);  // not there at the peak
    purpose.keep_as(Term::Activations);
  }
  EXPECT_EQ(pool.peak()[Term::Working], 4000);
  EXPECT_EQ(pool.peak()[Term::Activations], 40);
  EXPECT_EQ(pool.live_bytes(Term::Activations), 40 + 80);
}

TEST_F(Memory, PurposeOfAnUnsharedTensorMayChange) {
  MemoryPool pool;
  PoolScope scope(pool);
  const Tensor tensor = floats(10);
  set_purpose(tensor, Term::Transfer);
  EXPECT_EQ(pool.live_bytes(Term::Transfer), 40);
  EXPECT_EQ(pool.live_bytes(Term::Working), 0);
  {
    const Tensor view = tensor.view({2, 5});
    set_purpose(tensor, Term::Inputs);
    EXPECT_EQ(pool.live_bytes(Term::Transfer), 40);
  }
  set_purpose(tensor, Term::Inputs);
  EXPECT_EQ(pool.live_bytes(Term::Inputs), 40);
}

TEST_F(Memory, ATensorTakenOverCountsForTheReceiverAlone) {
  MemoryPool sender, receiver;
  Tensor tensor;
  {
    PoolScope scope(sender);
    tensor = floats(100);
  }
  const void* data = tensor.data_ptr();
  {
    PoolScope scope(receiver);
    tensor = adopt(tensor, Term::Inputs);
  }
  EXPECT_EQ(tensor.data_ptr(), data);
  EXPECT_EQ(sender.live_bytes(), 0);
  EXPECT_EQ(receiver.live_bytes(Term::Inputs), 400);
  EXPECT_EQ(receiver.peak()[Term::Inputs], 400);
  tensor.reset();
  EXPECT_EQ(receiver.live_bytes(), 0);
  EXPECT_EQ(sender.live_bytes(), 0);
}

// Else a sender would ask the system for every tensor that it sends.
TEST_F(Memory, ATensorTakenOverIsReusedWhereItCameFrom) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "under a sanitizer nothing is reused";
#endif
  MemoryPool sender, receiver;
  PoolScope scope(sender);
  Tensor tensor = floats(100'000);
  const void* data = tensor.data_ptr();
  {
    PoolScope other(receiver);
    tensor = adopt(tensor, Term::Inputs);
    tensor.reset();
  }
  EXPECT_EQ(floats(100'000).data_ptr(), data);
}

TEST_F(Memory, TensorInUseByTheSenderCountsForBoth) {
  MemoryPool sender, receiver;
  Tensor tensor, kept, received;
  {
    PoolScope scope(sender);
    tensor = at::arange(6, at::kFloat).view({2, 3});
    kept = tensor.view({6});
  }
  {
    PoolScope scope(receiver);
    received = adopt(tensor, Term::Inputs);
  }
  tensor.reset();
  EXPECT_EQ(received.data_ptr(), kept.data_ptr());
  EXPECT_TRUE(at::equal(received.view({6}), kept));
  EXPECT_EQ(sender.live_bytes(), 24);
  EXPECT_EQ(receiver.live_bytes(Term::Inputs), 24);
  kept.reset();  // the receiver's stays valid
  EXPECT_EQ(received.sum().item<double>(), 15);
  received.reset();
  EXPECT_EQ(sender.live_bytes(), 0);
  EXPECT_EQ(receiver.live_bytes(), 0);
}

TEST_F(Memory, IsTakenOverFromThreadToThread) {
  constexpr int kMany = 300;
  MemoryPool sender, receiver;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Tensor> between;
  std::thread other([&] {
    PoolScope scope(sender);
    std::vector<Tensor> kept;
    for (int i = 0; i < kMany; ++i) {
      Tensor tensor = floats(1 + i % 5);
      if (i % 3 == 0) kept.push_back(tensor.detach());
      if (i % 7 == 0) kept.clear();
      const std::lock_guard lock(mutex);
      between.push_back(std::move(tensor));
      changed.notify_all();
    }
  });
  PoolScope scope(receiver);
  std::vector<Tensor> held;
  for (int received = 0; received < kMany;) {
    std::vector<Tensor> arrived;
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return !between.empty(); });
      arrived.swap(between);
    }
    received += static_cast<int>(arrived.size());
    for (Tensor& tensor : arrived) held.push_back(adopt(std::exchange(tensor, {}), Term::Inputs));
    if (held.size() > 20) held.clear();
  }
  other.join();
  held.clear();
  EXPECT_EQ(sender.live_bytes(), 0);
  EXPECT_EQ(receiver.live_bytes(), 0);
}

}  // namespace
}  // namespace twobw::device
