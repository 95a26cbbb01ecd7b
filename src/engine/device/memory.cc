// The allocator: its blocks, and the pools and purposes that count them.
#include "engine/device/memory.h"

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

namespace twobw::device {
namespace {

std::size_t index(Term term) {
  return static_cast<std::size_t>(term);
}

}  // namespace

// Everything under the lock.
struct MemoryPool::State {
  // Blocks whose purpose changes together: those of one scope, or those moved to a purpose one by one.
  struct Account {
    Term purpose = Term::Working;
    bool held = false;  // by a scope, or for good; else it ends with its last block
    int blocks = 0;
    std::int64_t bytes = 0;
    std::int64_t from_peak = 0;  // of them, those in use since before the peak
  };

  std::mutex mutex;
  std::unordered_map<std::size_t, std::vector<void*>> free;  // by block size
  std::vector<Account> accounts{kTerms};                     // the first are the terms' own, in their order
  std::array<std::int64_t, kTerms> live{}, at_peak{};
  std::int64_t total = 0, peak = 0;
  std::int64_t charges = 0, charges_at_peak = 0;  // a block's number says if it was before the peak
  bool open = true;  // false once the pool is gone: blocks go straight back to the system

  State() {
    for (int term = 0; term < kTerms; ++term)
      accounts[term] = {.purpose = static_cast<Term>(term), .held = true};
  }

  // Gives the charge's number.
  std::int64_t charge(int account, std::int64_t bytes) {
    Account& to = accounts[account];
    ++to.blocks;
    to.bytes += bytes;
    live[index(to.purpose)] += bytes;
    total += bytes;
    ++charges;
    if (total > peak) mark_peak();
    return charges;
  }

  void discharge(int account, std::int64_t bytes, std::int64_t number) {
    Account& from = accounts[account];
    --from.blocks;
    from.bytes -= bytes;
    if (number <= charges_at_peak) from.from_peak -= bytes;
    live[index(from.purpose)] -= bytes;
    total -= bytes;
  }

  void mark_peak() {
    peak = total;
    at_peak = live;
    charges_at_peak = charges;
    for (Account& account : accounts) account.from_peak = account.bytes;
  }

  void set_purpose(int account, Term purpose) {
    Account& changed = accounts[account];
    live[index(changed.purpose)] -= changed.bytes;
    live[index(purpose)] += changed.bytes;
    at_peak[index(changed.purpose)] -= changed.from_peak;
    at_peak[index(purpose)] += changed.from_peak;
    changed.purpose = purpose;
  }

  int open_account(Term purpose) {
    std::size_t account = kTerms;
    while (account < accounts.size() && (accounts[account].held || accounts[account].blocks > 0)) ++account;
    if (account == accounts.size()) accounts.emplace_back();
    accounts[account] = {.purpose = purpose, .held = true};
    return static_cast<int>(account);
  }
};

namespace {

using StatePointer = std::shared_ptr<MemoryPool::State>;

constexpr std::size_t kHeader = 64;  // keeps the data on a cache line

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kReuse = false;  // a sanitizer sees more when freed memory is really freed
#else
constexpr bool kReuse = true;
#endif

// Changed only by a thread that has the block to itself.
struct Header {
  StatePointer home;    // where the block waits once it is freed; null: nowhere
  Allocation counted;   // usually at home, elsewhere once adopted
  std::int64_t number;  // of the charge
  std::size_t block;
  std::size_t requested;

  std::int64_t bytes() const { return static_cast<std::int64_t>(requested); }
};
static_assert(sizeof(Header) <= kHeader);

thread_local Allocation current;

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

std::int64_t charge(const Allocation& to, std::int64_t bytes) {
  if (!to.state) return 0;
  std::lock_guard lock(to.state->mutex);
  return to.state->charge(to.account, bytes);
}

void discharge(const Allocation& from, std::int64_t bytes, std::int64_t number) {
  if (!from.state) return;
  std::lock_guard lock(from.state->mutex);
  from.state->discharge(from.account, bytes, number);
}

void* take_block(const Allocation& from, std::size_t block, std::size_t requested, std::int64_t& number) {
  MemoryPool::State& state = *from.state;
  std::lock_guard lock(state.mutex);
  number = state.charge(from.account, static_cast<std::int64_t>(requested));
  auto waiting = state.free.find(block);
  if (waiting == state.free.end() || waiting->second.empty()) return nullptr;
  void* memory = waiting->second.back();
  waiting->second.pop_back();
  return memory;
}

bool keep_block(void* memory, const Header& header) {
  MemoryPool::State& state = *header.home;
  std::lock_guard lock(state.mutex);
  if (header.counted.state == header.home)
    state.discharge(header.counted.account, header.bytes(), header.number);
  if (!kReuse || !state.open) return false;
  state.free[header.block].push_back(memory);
  return true;
}

void release(void* data) {
  if (!data) return;
  void* memory = static_cast<char*>(data) - kHeader;
  auto* in_place = static_cast<Header*>(memory);
  const Header header = std::move(*in_place);
  in_place->~Header();
  if (header.counted.state != header.home) discharge(header.counted, header.bytes(), header.number);
  if (header.home && keep_block(memory, header)) return;
  std::free(memory);
}

void* acquire(std::size_t n) {
  if (n == 0) return nullptr;
  const std::size_t block = block_size(n);
  std::int64_t number = 0;
  void* memory = current.state ? take_block(current, block, n, number) : nullptr;
  if (!memory) memory = system_allocate(block);
  new (memory) Header{current.state, current, number, block, n};
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

// Null where the memory is not ours, or something else uses it too.
Header* sole_header(const at::Tensor& tensor) {
  if (!tensor.is_cpu() || !tensor.has_storage() || tensor.use_count() > 1 || tensor.storage().use_count() > 1)
    return nullptr;
  const c10::DataPtr& data = tensor.storage().data_ptr();
  if (!data.get() || data.get_deleter() != &release) return nullptr;
  return reinterpret_cast<Header*>(static_cast<char*>(data.get_context()) - kHeader);
}

void recount(Header& header, Allocation to) {
  discharge(header.counted, header.bytes(), header.number);
  header.counted = std::move(to);
  header.number = charge(header.counted, header.bytes());
}

// Bytes counted in addition to those of a block.
class Charge {
 public:
  Charge(Allocation to, std::int64_t bytes)
      : to_(std::move(to)), bytes_(bytes), number_(charge(to_, bytes_)) {}
  ~Charge() { discharge(to_, bytes_, number_); }
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;

 private:
  Allocation to_;
  std::int64_t bytes_;
  std::int64_t number_;
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
  return state_->total;
}

std::int64_t MemoryPool::live_bytes(Term purpose) const {
  std::lock_guard lock(state_->mutex);
  return state_->live[index(purpose)];
}

std::int64_t MemoryPool::peak_bytes() const {
  std::lock_guard lock(state_->mutex);
  return state_->peak;
}

Footprint MemoryPool::peak() const {
  std::lock_guard lock(state_->mutex);
  Footprint peak;
  std::copy(state_->at_peak.begin(), state_->at_peak.end(), peak.bytes.begin());
  return peak;
}

void MemoryPool::reset_peak() {
  std::lock_guard lock(state_->mutex);
  state_->mark_peak();
}

PoolScope::PoolScope(MemoryPool& pool)
    : previous_(std::exchange(current, {pool.state_, static_cast<int>(Term::Working)})) {}

PoolScope::~PoolScope() {
  current = std::move(previous_);
}

PurposeScope::PurposeScope(Term purpose) : previous_(current) {
  if (!current.state) return;
  std::lock_guard lock(current.state->mutex);
  current.account = current.state->open_account(purpose);
  mine_ = current;
}

PurposeScope::~PurposeScope() {
  current = std::move(previous_);
  if (!mine_.state) return;
  std::lock_guard lock(mine_.state->mutex);
  mine_.state->accounts[mine_.account].held = false;
}

void PurposeScope::keep_as(Term purpose) {
  if (!mine_.state) return;
  std::lock_guard lock(mine_.state->mutex);
  mine_.state->set_purpose(mine_.account, purpose);
}

void set_purpose(const at::Tensor& tensor, Term purpose) {
  Header* header = sole_header(tensor);
  if (!header || !current.state || header->counted.state != current.state) return;
  recount(*header, {current.state, static_cast<int>(purpose)});
}

at::Tensor adopt(const at::Tensor& tensor, Term purpose) {
  if (!current.state || !tensor.defined() || !tensor.is_cpu() || tensor.nbytes() == 0) return tensor;
  const Allocation here{current.state, static_cast<int>(purpose)};
  if (Header* header = sole_header(tensor)) {
    recount(*header, here);
    return tensor;
  }
  auto copy = std::make_shared<Charge>(here, static_cast<std::int64_t>(tensor.nbytes()));
  return at::from_blob(
      tensor.data_ptr(), tensor.sizes(), tensor.strides(), [tensor, copy = std::move(copy)](void*) {},
      tensor.options());
}

void install_allocator() {
  static PoolAllocator allocator;
  c10::SetCPUAllocator(&allocator, /*priority=*/1);
}

}  // namespace twobw::device
