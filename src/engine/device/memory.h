// A caching allocator for CPU tensors that counts bytes by stage and purpose.
//
// A stage's thread enters its pool, which counts each of its blocks until any thread frees it or another
// stage adopts it. Freed blocks return to their pool, by size, which avoids page faults in every microbatch.
//
// Purposes are the terms of the planner's memory model, so that a forecast can be compared term by term.
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
  // The peak, and its purposes at that moment: for bytes of a scope that ended with keep_as(), the purpose
  // given there.
  std::int64_t peak_bytes() const;
  Footprint peak() const;
  void reset_peak();

  struct State;

 private:
  friend class PoolScope;
  std::shared_ptr<State> state_;
};

// The calling thread's pool, and in it the account of a purpose.
struct Allocation {
  std::shared_ptr<MemoryPool::State> state;  // null: counted nowhere
  int account = 0;
};

// Scope in which the calling thread allocates from `pool`, for Term::Working by default.
class PoolScope {
 public:
  explicit PoolScope(MemoryPool& pool);
  ~PoolScope();
  PoolScope(const PoolScope&) = delete;
  PoolScope& operator=(const PoolScope&) = delete;

 private:
  Allocation previous_;
};

// Scope in which the calling thread allocates for `purpose`.
class PurposeScope {
 public:
  explicit PurposeScope(Term purpose);
  ~PurposeScope();
  PurposeScope(const PurposeScope&) = delete;
  PurposeScope& operator=(const PurposeScope&) = delete;

  // Changes the purpose of the scope's blocks that are still in use.
  void keep_as(Term purpose);

 private:
  Allocation previous_, mine_;
};

// Changes the purpose of a tensor's memory if the calling thread's pool counts it and nothing else uses it.
void set_purpose(const at::Tensor& tensor, Term purpose);

// Moves a tensor from another pool's account to the calling thread's. If the other side still uses the
// memory, both count it, and the result is a second tensor on it: it counts as the copy that separate devices
// need.
at::Tensor adopt(const at::Tensor& tensor, Term purpose);

// Installs this as LibTorch's CPU allocator, for the rest of the process.
void install_allocator();

}  // namespace twobw::device
