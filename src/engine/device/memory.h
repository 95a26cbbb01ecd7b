// CPU tensors' memory, counted by stage and purpose and reused without going back to the system.
//
// A stage's thread enters its pool; what it allocates is counted there until it is freed, by
// whichever thread, or taken over by another stage. Freed blocks wait in the pool that made them, by
// size, for the next allocation, which spares the page faults of fresh memory in every microbatch.
//
// Every block has a purpose, one of the terms of the planner's memory model, so that each term of a
// forecast can be held against what a run counted.
#pragma once

#include <cstdint>
#include <memory>

#include "core/base/memory_terms.h"

namespace at {
class Tensor;
}

namespace twobw::device {

class MemoryPool {
 public:
  MemoryPool();
  ~MemoryPool();  // blocks still in use stay valid
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  std::int64_t live_bytes() const;
  std::int64_t live_bytes(Term purpose) const;
  // The most that was ever live, and what it was for at that moment: for bytes of a scope that ended
  // with keep_as(), what they turned out to be for.
  std::int64_t peak_bytes() const;
  Footprint peak() const;
  void reset_peak();

  struct State;

 private:
  friend class PoolScope;
  std::shared_ptr<State> state_;
};

// Where the calling thread allocates: the pool, and in it the account of the blocks' purpose.
struct Allocation {
  std::shared_ptr<MemoryPool::State> state;  // null: counted nowhere
  int account = 0;
};

// While it lives, the calling thread allocates from `pool`, as Term::Working unless it says otherwise.
class PoolScope {
 public:
  explicit PoolScope(MemoryPool& pool);
  ~PoolScope();
  PoolScope(const PoolScope&) = delete;
  PoolScope& operator=(const PoolScope&) = delete;

 private:
  Allocation previous_;
};

// While it lives, what the calling thread allocates is for `purpose`.
class PurposeScope {
 public:
  explicit PurposeScope(Term purpose);
  ~PurposeScope();
  PurposeScope(const PurposeScope&) = delete;
  PurposeScope& operator=(const PurposeScope&) = delete;

  // What was allocated in this scope and is still in use is for `purpose` from now on.
  void keep_as(Term purpose);

 private:
  Allocation previous_, mine_;
};

// The tensor's memory is for `purpose` from now on, if the calling thread's pool counts it and nothing
// else uses it.
void set_purpose(const at::Tensor& tensor, Term purpose);

// Counts a tensor that came from another pool to the calling thread's, for `purpose`. Where the other
// side still uses the memory it goes on being counted there as well, and the result is a second tensor
// on it: this one counts as the copy it would be on a device of its own.
at::Tensor adopt(const at::Tensor& tensor, Term purpose);

// Makes LibTorch allocate CPU memory here, for the rest of the process.
void install_allocator();

}  // namespace twobw::device
