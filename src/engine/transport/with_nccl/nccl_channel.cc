#include "engine/transport/nccl_channel.h"

#include <c10/cuda/CUDAGuard.h>

#include <thread>
#include <utility>

#include "core/base/error.h"
#include "engine/device/gpu.h"
#include "engine/transport/wait_hub.h"

namespace twobw::transport {
namespace {

// A non-blocking communicator may still be working on it.
void check_posted(ncclResult_t result, const char* what) {
  if (result != ncclInProgress) check_nccl(result, what);
}

bool is_done(const device::StreamEvent& event) {
  return cudaEventQuery(static_cast<cudaEvent_t>(event.get())) == cudaSuccess;
}

}  // namespace

void check_nccl(ncclResult_t result, const char* what) {
  if (result != ncclSuccess) fail_run("NCCL: {} failed: {}", what, ncclGetErrorString(result));
}

ncclUniqueId make_nccl_id() {
  ncclUniqueId id{};
  check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  return id;
}

NcclChannel::NcclChannel(std::shared_ptr<NcclShared> shared, const ncclUniqueId& id, int ranks, int rank,
                         int gpu, std::string what)
    : shared_(std::move(shared)),
      what_(std::move(what)),
      size_(ranks),
      rank_(rank),
      stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true, static_cast<c10::DeviceIndex>(gpu))) {
  const c10::cuda::CUDAGuard guard(stream_.device_index());
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  std::lock_guard lock(mutex_);
  try {
    settle(ncclCommInitRankConfig(&communicator_, ranks, id, rank, &config), "joining");
  } catch (...) {
    if (communicator_ != nullptr) ncclCommAbort(std::exchange(communicator_, nullptr));
    throw;
  }
}

NcclChannel::~NcclChannel() {
  end();
}

// Under the communicator's lock.
void NcclChannel::settle(ncclResult_t result, const char* what) const {
  const auto deadline = Clock::now() + shared_->timeout;
  while (result == ncclInProgress) {
    if (is_aborted()) throw Cancelled();
    if (Clock::now() > deadline)
      fail_run("NCCL: {}: {} did not end within {:g} s", what_, what, shared_->timeout.count());
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    check_nccl(ncclCommGetAsyncError(communicator_, &result), "ncclCommGetAsyncError");
  }
  if (result != ncclSuccess) fail_run("NCCL: {}: {} failed: {}", what_, what, ncclGetErrorString(result));
}

void NcclChannel::Group::send(const void* data, std::size_t bytes, int to) const {
  check_posted(ncclSend(data, bytes, ncclChar, to, communicator, stream), "ncclSend");
}

void NcclChannel::Group::receive(void* data, std::size_t bytes, int from) const {
  check_posted(ncclRecv(data, bytes, ncclChar, from, communicator, stream), "ncclRecv");
}

void NcclChannel::queue(const std::function<void(const Group&)>& calls) {
  const c10::cuda::CUDAGuard guard(gpu());
  std::lock_guard lock(mutex_);
  if (is_aborted() || communicator_ == nullptr) throw Cancelled();
  Group group;
  group.communicator = communicator_;
  group.stream = stream_;
  check_posted(ncclGroupStart(), "ncclGroupStart");
  try {
    calls(group);
  } catch (...) {
    ncclGroupEnd();  // or the thread's next call would still belong to the group
    throw;
  }
  settle(ncclGroupEnd(), "a transfer");
}

device::StreamEvent NcclChannel::record() {
  const c10::cuda::CUDAGuard guard(gpu());
  device::StreamEvent event = device::record_stream_event(stream_);
  std::lock_guard lock(pending_mutex_);
  pending_.push_back({event, Clock::now()});
  return event;
}

void NcclChannel::await(const device::StreamEvent& ready) const {
  if (!device::block_until(ready, [this] { return is_aborted(); })) throw Cancelled();
}

void NcclChannel::drain() {
  await(record());
}

std::string NcclChannel::problem() {
  {
    // The thread that holds the lock is in a call, and handles its failure.
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || communicator_ == nullptr) return {};
    ncclResult_t result = ncclSuccess;
    if (ncclCommGetAsyncError(communicator_, &result) != ncclSuccess) return {};
    if (result != ncclSuccess && result != ncclInProgress)
      return fmt::format("NCCL: {} failed: {}", what_, ncclGetErrorString(result));
  }
  std::lock_guard lock(pending_mutex_);
  while (!pending_.empty() && is_done(pending_.front().end)) pending_.pop_front();
  if (pending_.empty() || Clock::now() - pending_.front().since < shared_->timeout) return {};
  return fmt::format("NCCL: {} did not end within {:g} s", what_, shared_->timeout.count());
}

// ncclCommAbort, not Destroy: after a good end nothing is pending, and after an abort nothing else returns.
void NcclChannel::end() {
  std::lock_guard lock(mutex_);
  if (communicator_ == nullptr) return;
  const c10::cuda::CUDAGuard guard(gpu());
  ncclCommAbort(std::exchange(communicator_, nullptr));
}

}  // namespace twobw::transport
