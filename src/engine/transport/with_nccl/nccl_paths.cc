#include "engine/transport/gpu_paths.h"

#include <c10/cuda/CUDAGuard.h>
#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/output.h"
#include "engine/device/gpu.h"
#include "engine/transport/nccl_channel.h"
#include "engine/transport/stream_keep_alive.h"

namespace twobw::transport {
namespace {

constexpr int kIds = 1;  // the tag, of a link's or a sum's, that carries communicator ids

at::Tensor bytes_of_id(const ncclUniqueId& id) {
  at::Tensor tensor = at::empty({sizeof id.internal}, at::kByte);
  std::memcpy(tensor.mutable_data_ptr(), id.internal, sizeof id.internal);
  return tensor;
}

// The first process of the set makes the id.
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

// Ends all channels at once: when one frees memory, CUDA waits for all queued work of the GPU, including a
// transfer of another channel whose peer is gone. If a GPU does not return, the process exits.
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

class NcclPath final : public GpuPath {
 public:
  NcclPath(std::shared_ptr<NcclChannel> channel, int peer) : channel_(std::move(channel)), peer_(peer) {}

  void await(const device::StreamEvent& ready) override { channel_->await(ready); }

  void send(Tensors tensors) override {
    const c10::cuda::CUDAStreamGuard guard(channel_->stream());
    for (at::Tensor& tensor : tensors) {
      TWOBW_ASSERT(tensor.is_cuda(), "a tensor on the CPU, to be sent from a GPU");
      tensor = tensor.to(channel_->stream().device());
    }
    channel_->queue([&](const NcclChannel::Group& group) {
      for (const at::Tensor& tensor : tensors) {
        if (tensor.nbytes() > 0) group.send(tensor.const_data_ptr(), tensor.nbytes(), peer_);
      }
    });
    leaving_.keep(std::move(tensors), channel_->record());
  }

  // Allocates on the channel's stream: memory freed by the worker's stream would have to wait for it.
  Message receive(const TensorShapes& shapes) override {
    const c10::cuda::CUDAStreamGuard guard(channel_->stream());
    Message message;
    for (const TensorShape& shape : shapes)
      message.tensors.push_back(
          at::empty(shape.sizes, at::TensorOptions(shape.type).device(channel_->stream().device())));
    channel_->queue([&](const NcclChannel::Group& group) {
      for (const at::Tensor& tensor : message.tensors) {
        if (tensor.nbytes() > 0) group.receive(tensor.mutable_data_ptr(), tensor.nbytes(), peer_);
      }
    });
    message.ready = channel_->record();
    return message;
  }

  Tensors take(Message message) const override {
    const c10::cuda::CUDAStream compute = c10::cuda::getCurrentCUDAStream();
    const bool is_local = compute.device() == channel_->stream().device();
    const auto there = c10::cuda::getCurrentCUDAStream(channel_->stream().device_index());
    device::await_stream_event(message.ready, compute);
    if (!is_local) device::await_stream_event(message.ready, there);  // where the copy runs
    {
      const c10::cuda::CUDAGuard guard(there.device());
      std::lock_guard lock(mutex_);
      keep_alive_.keep(message.tensors, there);
    }
    if (is_local) return std::move(message.tensors);
    for (at::Tensor& tensor : message.tensors) tensor = tensor.to(compute.device());
    return std::move(message.tensors);
  }

  void drain() override {
    channel_->drain();
    leaving_.clear();
  }

 private:
  std::shared_ptr<NcclChannel> channel_;
  int peer_;
  LeavingTensors leaving_;
  mutable std::mutex mutex_;
  mutable StreamKeepAlive keep_alive_;  // under the lock: workers take
};

// Every path, sum and gather has a channel of its own, so that none waits behind another. A thread watches
// them.
class NcclPaths final : public GpuPaths {
 public:
  NcclPaths(std::chrono::duration<double> timeout, OnFailure on_failure);
  ~NcclPaths() override;

  std::unique_ptr<GpuPath> connect(const LinkEnd& end) override;
  std::unique_ptr<GpuAdder> join(const RemoteReplicas& replicas, int gpu, SumRanges ranges) override;
  std::unique_ptr<GpuGatherer> join_owners(const RemoteReplicas& replicas, int gpu,
                                           std::vector<weights::Range> parts) override;
  void abort() override;

 private:
  std::shared_ptr<NcclChannel> open_for(const RemoteReplicas& replicas, int gpu, std::string what);
  std::shared_ptr<NcclChannel> open(Wire& wire, int tag, const std::vector<int>& ranks, int gpu,
                                    std::string what);
  void greet(NcclChannel& channel, bool one_way);
  void watch();

  std::shared_ptr<NcclShared> shared_;
  OnFailure on_failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  std::vector<std::shared_ptr<NcclChannel>> channels_;  // in the same order in all processes
  std::thread watcher_;
};

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
  return std::make_unique<NcclPath>(channel, end.sends ? 1 : 0);
}

std::shared_ptr<NcclChannel> NcclPaths::open_for(const RemoteReplicas& replicas, int gpu, std::string what) {
  auto channel = open(replicas.wire, replicas.tag, distinct(replicas.ranks), gpu, std::move(what));
  greet(*channel, /*one_way=*/false);
  return channel;
}

std::unique_ptr<GpuAdder> NcclPaths::join(const RemoteReplicas& replicas, int gpu, SumRanges ranges) {
  return nccl_adder(open_for(replicas, gpu, "a sum over replicas in several processes"), replicas.ranks,
                    replicas.wire.rank(), std::move(ranges));
}

std::unique_ptr<GpuGatherer> NcclPaths::join_owners(const RemoteReplicas& replicas, int gpu,
                                                    std::vector<weights::Range> parts) {
  return nccl_gatherer(open_for(replicas, gpu, "weights between replicas in several processes"),
                       replicas.ranks, replicas.wire.rank(), std::move(parts));
}

// Sends a message on every path that is used later, `one_way` from the first to the second: failures show up
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
  const auto deadline = std::chrono::steady_clock::now() + shared_->timeout;
  const auto gives_up = [&] { return shared_->aborted || std::chrono::steady_clock::now() > deadline; };
  if (!device::block_until(channel.record(), gives_up)) {
    if (shared_->aborted) throw Cancelled();
    fail_run("NCCL: timed out after {:g} s waiting for the other processes of the group",
             shared_->timeout.count());
  }
  if (!heard.equal(expected)) fail_run("NCCL: the processes of a group are not in their order");
}

// Aborts the channels after abort(), because peers may never join the queued transfers; and reports
// asynchronous failures.
void NcclPaths::watch() {
  pthread_setname_np(pthread_self(), "nccl watch");
  constexpr std::chrono::milliseconds kBetween(100);
  bool reported = false;
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
      std::this_thread::sleep_for(kBetween);  // a channel may still be opened
      continue;
    }
    for (const auto& channel : channels) {
      const std::string problem = reported ? "" : channel->problem();
      if (problem.empty()) continue;
      reported = true;
      on_failure_("nccl watch", std::make_exception_ptr(RunError(problem)));
    }
  }
}

}  // namespace

int nccl_version() {
  int version = 0;
  return ncclGetVersion(&version) == ncclSuccess ? version : 0;
}

std::unique_ptr<GpuPaths> nccl_paths(std::chrono::duration<double> timeout, OnFailure on_failure) {
  return std::make_unique<NcclPaths>(timeout, std::move(on_failure));
}

}  // namespace twobw::transport
