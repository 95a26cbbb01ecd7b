#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "engine/device/gpu.h"
#include "engine/transport/add_replicas_cuda.h"
#include "engine/transport/replica_sum.h"

namespace twobw::transport {
namespace {

using c10::cuda::CUDAStream;

constexpr std::int64_t kChunk = 4 << 20;  // elements fetched from other GPUs at a time

// A replica's resources for its share of every sum: a stream of its GPU beside the worker's own.
struct Lane {
  CUDAStream stream;
  at::Tensor room;  // values from other GPUs: a chunk per replica

  c10::DeviceIndex gpu() const { return stream.device_index(); }
};

void copy(float* to, int to_gpu, const float* from, int from_gpu, std::int64_t count, cudaStream_t stream) {
  const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
  device::check_cuda(cudaMemcpyPeerAsync(to, to_gpu, from, from_gpu, bytes, stream), "cudaMemcpyPeerAsync");
}

// The lanes of all replicas of a stage; sums run one after another.
class Lanes {
 public:
  Lanes(bool simulate_peers, SumRanges ranges) : apart_(simulate_peers), ranges_(std::move(ranges)) {}

  // Queues the sum; returns the event of each lane's end.
  std::vector<device::StreamEvent> add_up(const std::vector<Contribution>& all) {
    std::lock_guard lock(mutex_);
    if (lanes_.empty()) open(all);
    std::vector<device::StreamEvent> done;
    for (int replica = 0; replica < std::ssize(all); ++replica) {
      const c10::cuda::CUDAGuard guard(lanes_[replica].gpu());
      for (const Contribution& one : all) device::await_stream_event(one.ready, lanes_[replica].stream);
      for (const SumRange& range : ranges_) {
        const SumRange part = part_of(range, replica, std::ssize(all));
        if (part.count == 0) continue;
        if (apart_) {
          add_by_chunks(all, replica, part);
        } else {
          add_in_place(all, replica, part);
        }
      }
      done.push_back(device::record_stream_event(lanes_[replica].stream));
    }
    return done;
  }

  const Lane& of(int replica) const { return lanes_[replica]; }

 private:
  static float* data(const Contribution& one) { return one.gradient.mutable_data_ptr<float>(); }

  // The part that a replica adds: all of its own range, a share of a common one.
  static SumRange part_of(const SumRange& range, int replica, std::int64_t replicas) {
    if (range.owner != SumRange::kAll) return range.owner == replica ? range : SumRange();
    const std::int64_t share = (range.count / replicas + 3) / 4 * 4;  // on multiples of 16 bytes
    const std::int64_t begin = std::min(range.end(), range.begin + replica * share);
    const std::int64_t end = replica + 1 == replicas ? range.end() : std::min(range.end(), begin + share);
    return {.begin = begin, .count = end - begin};
  }
  static bool takes(const SumRange& part, std::size_t replica) {
    return part.owner == SumRange::kAll || part.owner == static_cast<int>(replica);
  }

  void open(const std::vector<Contribution>& all) {
    if (ranges_.empty()) ranges_ = {{.count = all.front().gradient.numel()}};
    for (const Contribution& one : all) {
      apart_ = apart_ || one.gradient.device() != all.front().gradient.device();
      lanes_.push_back(
          {c10::cuda::getStreamFromPool(/*isHighPriority=*/true, one.gradient.get_device()), {}});
    }
    if (!apart_) return;
    const auto replicas = static_cast<std::int64_t>(all.size());
    for (Lane& lane : lanes_) {
      const c10::cuda::CUDAStreamGuard guard(lane.stream);
      const auto options = all.front().gradient.options().device(lane.stream.device());
      lane.room = at::empty({replicas, std::min(kChunk, all.front().gradient.numel())}, options);
    }
  }

  void add_in_place(const std::vector<Contribution>& all, int replica, const SumRange& part) const {
    cuda::Buffers from, to;
    for (std::size_t other = 0; other < all.size(); ++other) {
      from.add(data(all[other]) + part.begin);
      if (takes(part, other)) to.add(data(all[other]) + part.begin);
    }
    cuda::add_replicas(from, to, part.count, lanes_[replica].stream);
  }

  // Fetches the others' values, adds them, and copies the sum to the replicas that take it.
  void add_by_chunks(const std::vector<Contribution>& all, int replica, const SumRange& part) const {
    const Lane& lane = lanes_[replica];
    float* room = lane.room.mutable_data_ptr<float>();
    for (std::int64_t begin = part.begin; begin < part.end(); begin += kChunk) {
      const std::int64_t count = std::min(kChunk, part.end() - begin);
      float* own = data(all[replica]) + begin;
      cuda::Buffers from, to;
      for (std::size_t other = 0; other < all.size(); ++other) {
        if (static_cast<int>(other) == replica) {
          from.add(own);
          continue;
        }
        float* fetched = room + static_cast<std::int64_t>(other) * lane.room.size(1);
        copy(fetched, lane.gpu(), data(all[other]) + begin, lanes_[other].gpu(), count, lane.stream);
        from.add(fetched);
      }
      to.add(own);
      cuda::add_replicas(from, to, count, lane.stream);
      for (std::size_t other = 0; other < all.size(); ++other) {
        if (static_cast<int>(other) != replica && takes(part, other))
          copy(data(all[other]) + begin, lanes_[other].gpu(), own, lane.gpu(), count, lane.stream);
      }
    }
  }

  std::mutex mutex_;
  bool apart_;
  SumRanges ranges_;  // not empty once the lanes are open
  std::vector<Lane> lanes_;
};

// The first caller of advance() queues all of it.
class GpuSum final : public ReplicaSum {
 public:
  GpuSum(std::vector<Contribution> all, std::shared_ptr<Lanes> lanes)
      : all_(std::move(all)), lanes_(std::move(lanes)) {}

  bool advance() override {
    if (begun_.exchange(true)) return false;
    if (!alone()) done_ = lanes_->add_up(all_);
    return true;
  }

  void then(int replica, const std::function<void()>& work) override {
    if (alone()) return work();
    const Lane& lane = lanes_->of(replica);
    for (const device::StreamEvent& part : done_) device::await_stream_event(part, lane.stream);
    const device::StreamScope beside(lane.stream, lane.gpu());
    work();
  }

  void share(int replica, std::int64_t offset, std::int64_t count) const override {
    const CUDAStream stream = c10::cuda::getCurrentCUDAStream();
    const at::Tensor& own = all_[replica].gradient;
    for (std::size_t other = 0; other < all_.size(); ++other) {
      const at::Tensor& to = all_[other].gradient;
      if (static_cast<int>(other) == replica) continue;
      copy(to.mutable_data_ptr<float>() + offset, to.get_device(), own.const_data_ptr<float>() + offset,
           own.get_device(), count, stream);
    }
  }

  void for_each(const Visit& visit) const override {
    if (alone()) return visit(0, all_.front());
    const device::StreamEvent before = device::record_stream_event();
    for (int replica = 0; replica < std::ssize(all_); ++replica) {
      const Lane& lane = lanes_->of(replica);
      const c10::cuda::CUDAGuard guard(lane.gpu());
      device::await_stream_event(before, lane.stream);
      const device::StreamScope beside(lane.stream, lane.gpu());
      visit(replica, all_[replica]);
    }
  }

 private:
  bool alone() const { return all_.size() == 1; }

  std::vector<Contribution> all_;
  std::shared_ptr<Lanes> lanes_;
  std::atomic<bool> begun_ = false;
  std::vector<device::StreamEvent> done_;
};

}  // namespace

MakeSum sums_on_gpus(bool simulate_peers, SumRanges ranges) {
  return [lanes = std::make_shared<Lanes>(simulate_peers, std::move(ranges))](std::vector<Contribution> all) {
    return std::make_shared<GpuSum>(std::move(all), lanes);
  };
}

}  // namespace twobw::transport
