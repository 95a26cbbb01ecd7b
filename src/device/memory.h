// CPU tensors' memory, counted by stage and reused without going back to the system.
//
// A stage's thread enters its pool; what it allocates is counted there until it is freed, by
// whichever thread. Freed blocks wait in the pool by size for the next allocation, which spares the
// page faults of fresh memory in every microbatch.
#pragma once

#include <cstdint>
#include <memory>

namespace twobw::device {

class MemoryPool {
 public:
  MemoryPool();
  ~MemoryPool();  // blocks still in use stay valid
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  std::int64_t live_bytes() const;
  std::int64_t peak_bytes() const;
  void reset_peak();

  struct State;

 private:
  friend class PoolScope;
  std::shared_ptr<State> state_;
};

// While it lives, the calling thread allocates from `pool`.
class PoolScope {
 public:
  explicit PoolScope(MemoryPool& pool);
  ~PoolScope();
  PoolScope(const PoolScope&) = delete;
  PoolScope& operator=(const PoolScope&) = delete;

 private:
  std::shared_ptr<MemoryPool::State> previous_;
};

// Makes LibTorch allocate CPU memory here, for the rest of the process.
void install_allocator();

}  // namespace twobw::device
