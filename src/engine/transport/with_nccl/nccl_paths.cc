#include "engine/transport/nccl_paths.h"

#include <c10/cuda/CUDAGuard.h>
#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <utility>

#include "core/base/error.h"
#include "core/base/exit.h"
#include "engine/device/gpu.h"
#include "engine/transport/hub.h"
#include "engine/transport/nccl.h"
#include "engine/transport/nccl_adder.h"
#include "engine/transport/nccl_gatherer.h"
#include "engine/transport/nccl_path.h"

namespace twobw::transport {
namespace {

constexpr int kIds = 1;  // of a link's or a sum's tags: what channels are made by

at::Tensor bytes_of_id(const ncclUniqueId& id) {
  at::Tensor tensor = at::empty({sizeof id.internal}, at::kByte);
  std::memcpy(tensor.mutable_data_ptr(), id.internal, sizeof id.internal);
  return tensor;
}

// By what the set's first process makes.
ncclUniqueId agree_on_id(Wire& wire, int tag, const std::vector<int>& ranks) {
  ncclUniqueId id{};
  if (wire.rank() == ranks.front()) {
    id = make_nccl_id();
    const at::Tensor tensor = bytes_of_id(id);
    std::vector<std::shared_ptr<Transfer>> transfers;
    for (const int rank : ranks) {
      if (rank != wire.rank()) transfers.push_back(wire.send(rank, tag + kIds, tensor));
    }
    for (const auto& transfer : transfers) transfer->wait();
    return id;
  }
  const at::Tensor tensor = bytes_of_id(id);
  wire.receive(ranks.front(), tag + kIds, tensor)->wait();
  std::memcpy(id.internal, tensor.const_data_ptr(), sizeof id.internal);
  return id;
}

// All at once: where one gives memory back, CUDA waits for all that is queued on the GPU, also for a transfer
// of another whose peer is gone. Where a GPU does not come back, nothing is left but to leave it.
void end_in_time(const std::vector<std::shared_ptr<NcclChannel>>& channels) {
  constexpr std::chrono::seconds kWithin(30);
  const auto deadline = std::chrono::steady_clock::now() + kWithin;
  std::vector<std::future<void>> ends;
  for (const auto& channel : channels)
    ends.push_back(std::async(std::launch::async, [&] { channel->end(); }));
  const bool in_time = std::ranges::all_of(
      ends, [&](const auto& end) { return end.wait_until(deadline) == std::future_status::ready; });
  if (in_time) return;
  fmt::print(stderr, "twobw: NCCL did not end within {} s of the run's end\n", kWithin.count());
  leave(1);
}

}  // namespace

NcclPaths::NcclPaths(std::chrono::duration<double> timeout, OnFailure on_failure)
    : shared_(std::make_shared<NcclShared>()), on_failure_(std::move(on_failure)) {
  shared_->timeout = timeout;
  watcher_ = std::thread([this] { watch(); });
}

NcclPaths::~NcclPaths() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_one();
  watcher_.join();
  end_in_time(channels_);
}

void NcclPaths::abort() {
  shared_->aborted = true;
  std::lock_guard lock(mutex_);
  changed_.notify_one();
}

std::shared_ptr<NcclChannel> NcclPaths::open(Wire& wire, int tag, const std::vector<int>& ranks, int gpu,
                                             std::string what) {
  const ncclUniqueId id = agree_on_id(wire, tag, ranks);
  const auto own = static_cast<int>(std::ranges::find(ranks, wire.rank()) - ranks.begin());
  const auto channel =
      std::make_shared<NcclChannel>(shared_, id, static_cast<int>(ranks.size()), own, gpu, std::move(what));
  std::lock_guard lock(mutex_);
  channels_.push_back(channel);
  return channel;
}

std::unique_ptr<GpuPath> NcclPaths::connect(const LinkEnd& end) {
  const int own = end.wire.rank();
  const std::vector<int> ranks =
      end.sends ? std::vector<int>{own, end.peer} : std::vector<int>{end.peer, own};
  const auto channel = open(end.wire, end.tag, ranks, end.gpu,
                            fmt::format("a transfer {} process {}", end.sends ? "to" : "from", end.peer));
  greet(*channel, /*one_way=*/true);
  return nccl_path(channel, end.sends ? 1 : 0);
}

std::shared_ptr<NcclChannel> NcclPaths::open_for(const Replicas& replicas, std::string what) {
  std::vector<int> ranks;
  std::ranges::unique_copy(replicas.ranks, std::back_inserter(ranks));
  auto channel = open(replicas.wire, replicas.tag, ranks, replicas.gpu, std::move(what));
  greet(*channel, /*one_way=*/false);
  return channel;
}

std::unique_ptr<GpuAdder> NcclPaths::join(const Replicas& replicas, SumRanges ranges) {
  return nccl_adder(open_for(replicas, "a sum over replicas in several processes"), replicas.ranks,
                    replicas.wire.rank(), std::move(ranges));
}

std::unique_ptr<GpuGatherer> NcclPaths::join_owners(const Replicas& replicas,
                                                    std::vector<weights::Range> parts) {
  return nccl_gatherer(open_for(replicas, "weights between replicas in several processes"), replicas.ranks,
                       replicas.wire.rank(), std::move(parts));
}

// A message on every way that is used later, one_way from the first to the second: what goes wrong does so
// here, and NCCL makes its connections.
void NcclPaths::greet(NcclChannel& channel, bool one_way) {
  const c10::cuda::CUDAStreamGuard guard(channel.stream());
  const int own = channel.rank();
  const bool sends = !one_way || own == 0, receives = !one_way || own == 1;
  const at::Tensor said = at::full({channel.size()}, own, at::TensorOptions(at::kInt).device(at::kCUDA)),
                   expected = at::arange(channel.size(), said.options()),
                   heard = receives ? at::full_like(said, -1) : expected.clone();
  heard[own].fill_(own);
  channel.queue([&](const NcclChannel::Group& group) {
    for (int peer = 0; peer < channel.size(); ++peer) {
      if (peer == own) continue;
      if (sends) group.send(said[peer].const_data_ptr(), sizeof(int), peer);
      if (receives) group.receive(heard[peer].mutable_data_ptr(), sizeof(int), peer);
    }
  });
  await_greeting(channel);
  if (!heard.equal(expected)) fail_run("NCCL: the processes of a set are not who they should be");
}

void NcclPaths::await_greeting(NcclChannel& channel) {
  const auto deadline = std::chrono::steady_clock::now() + shared_->timeout;
  const auto gives_up = [&] { return shared_->aborted || std::chrono::steady_clock::now() > deadline; };
  if (device::block_until(channel.record(), gives_up)) return;
  if (shared_->aborted) throw Cancelled();
  fail_run("NCCL: the processes of a set did not hear of each other within {:g} s", shared_->timeout.count());
}

// Aborts the channels when that is asked for, since others may not come to what is queued; and tells of what
// fails beside every thread.
void NcclPaths::watch() {
  pthread_setname_np(pthread_self(), "nccl watch");
  constexpr std::chrono::milliseconds kBetween(100);
  bool told = false;
  while (true) {
    std::vector<std::shared_ptr<NcclChannel>> channels;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kBetween, [this] { return closed_ || shared_->aborted; });
      if (closed_) return;
      channels = channels_;
    }
    if (shared_->aborted) {
      end_in_time(channels);
      std::this_thread::sleep_for(kBetween);  // one may be opened yet
      continue;
    }
    for (const auto& channel : channels) {
      const std::string problem = told ? "" : channel->problem();
      if (problem.empty()) continue;
      told = true;
      on_failure_("nccl watch", std::make_exception_ptr(RunError(problem)));
    }
  }
}

int nccl_version() {
  int version = 0;
  return ncclGetVersion(&version) == ncclSuccess ? version : 0;
}

std::unique_ptr<GpuPaths> nccl_paths(std::chrono::duration<double> timeout, OnFailure on_failure) {
  return std::make_unique<NcclPaths>(timeout, std::move(on_failure));
}

}  // namespace twobw::transport
