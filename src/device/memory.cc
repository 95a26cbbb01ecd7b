#include "device/memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

namespace twobw::device {

struct MemoryPool::State {
  std::mutex mutex;
  std::unordered_map<std::size_t, std::vector<void*>> free;  // by block size
  std::int64_t live = 0, peak = 0;
  bool open = true;  // false once the pool is gone: blocks go straight back to the system
};

namespace {

using StatePointer = std::shared_ptr<MemoryPool::State>;

constexpr std::size_t kHeader = 64;  // keeps the data on a cache line

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kReuse = false;  // a sanitizer sees more when freed memory is really freed
#else
constexpr bool kReuse = true;
#endif

struct Header {
  StatePointer state;  // null: counted nowhere
  std::size_t block;
  std::size_t requested;
};
static_assert(sizeof(Header) <= kHeader);

thread_local StatePointer current;

// An eighth of waste at most, so that nearly equal sizes share blocks.
std::size_t block_size(std::size_t n) {
  const std::size_t step = std::max<std::size_t>(64, std::bit_floor(n) / 8);
  return (n + step - 1) / step * step + kHeader;
}

void* system_allocate(std::size_t size) {
  void* memory = nullptr;
  if (posix_memalign(&memory, 64, size) != 0) throw std::bad_alloc();
  return memory;
}

void* take_block(MemoryPool::State& state, std::size_t block, std::size_t requested) {
  std::lock_guard lock(state.mutex);
  state.live += static_cast<std::int64_t>(requested);
  state.peak = std::max(state.peak, state.live);
  auto waiting = state.free.find(block);
  if (waiting == state.free.end() || waiting->second.empty()) return nullptr;
  void* memory = waiting->second.back();
  waiting->second.pop_back();
  return memory;
}

bool keep_block(MemoryPool::State& state, void* memory, const Header& header) {
  std::lock_guard lock(state.mutex);
  state.live -= static_cast<std::int64_t>(header.requested);
  if (!kReuse || !state.open) return false;
  state.free[header.block].push_back(memory);
  return true;
}

void release(void* data) {
  if (!data) return;
  void* memory = static_cast<char*>(data) - kHeader;
  auto* header = static_cast<Header*>(memory);
  const Header copy = *header;
  header->~Header();
  if (copy.state && keep_block(*copy.state, memory, copy)) return;
  std::free(memory);
}

void* acquire(std::size_t n) {
  if (n == 0) return nullptr;
  const std::size_t block = block_size(n);
  void* memory = current ? take_block(*current, block, n) : nullptr;
  if (!memory) memory = system_allocate(block);
  new (memory) Header{current, block, n};
  return static_cast<char*>(memory) + kHeader;
}

class PoolAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t n) override {
    void* data = acquire(n);
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* destination, const void* source, std::size_t n) const override {
    std::memcpy(destination, source, n);
  }
};

}  // namespace

MemoryPool::MemoryPool() : state_(std::make_shared<State>()) {}

MemoryPool::~MemoryPool() {
  std::lock_guard lock(state_->mutex);
  state_->open = false;
  for (auto& [size, blocks] : state_->free) {
    for (void* memory : blocks) std::free(memory);
  }
  state_->free.clear();
}

std::int64_t MemoryPool::live_bytes() const {
  std::lock_guard lock(state_->mutex);
  return state_->live;
}

std::int64_t MemoryPool::peak_bytes() const {
  std::lock_guard lock(state_->mutex);
  return state_->peak;
}

void MemoryPool::reset_peak() {
  std::lock_guard lock(state_->mutex);
  state_->peak = state_->live;
}

PoolScope::PoolScope(MemoryPool& pool) : previous_(std::exchange(current, pool.state_)) {}
PoolScope::~PoolScope() {
  current = std::move(previous_);
}

void install_allocator() {
  static PoolAllocator allocator;
  c10::SetCPUAllocator(&allocator, /*priority=*/1);
}

}  // namespace twobw::device
