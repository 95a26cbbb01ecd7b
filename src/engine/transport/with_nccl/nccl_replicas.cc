#include "engine/transport/nccl_channel.h"

#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <map>
#include <utility>

#include "engine/device/gpu.h"
#include "engine/transport/add_replicas_cuda.h"

namespace twobw::transport {
namespace {

constexpr std::int64_t kPiece = 4 << 20;  // elements that a process adds in a round
constexpr std::int64_t kAligned = 4;      // elements, 16 bytes, that they are aligned to

// Replicas in several processes, and this process's channel to the others.
struct Members {
  Members(std::shared_ptr<NcclChannel> channel, std::vector<int> ranks, int own)
      : channel(std::move(channel)), ranks(std::move(ranks)), processes(distinct(this->ranks)), own(own) {}

  bool is_here(int rank) const { return rank == own; }
  int index_of(int rank) const {
    return static_cast<int>(std::ranges::find(processes, rank) - processes.begin());
  }

  std::shared_ptr<NcclChannel> channel;
  std::vector<int> ranks;      // of each replica
  std::vector<int> processes;  // distinct ranks
  int own;                     // rank
};

class NcclAdder final : public GpuAdder, Members {
 public:
  NcclAdder(Members members, SumRanges ranges) : Members(std::move(members)), given_(std::move(ranges)) {
    first_ = static_cast<int>(std::ranges::find(ranks, own) - ranks.begin());
  }

  void await(const std::vector<Contribution>& here) override {
    for (const Contribution& one : here) channel->await(one.ready);
  }

  void add_up(const std::vector<Contribution>& here) override {
    const c10::cuda::CUDAStreamGuard guard(channel->stream());
    std::vector<at::Tensor> buffers;
    for (const Contribution& one : here) buffers.push_back(on_this_gpu(one.gradient));
    plan(buffers.front());
    for (const SumRound& round : rounds_) {
      gather(buffers, round);
      add(buffers, round);
      spread(buffers.front(), round);
    }
    hand_out(buffers, here);
    channel->record();
  }

  void then(const at::Tensor& gradient, const std::function<void()>& work) override {
    const c10::cuda::CUDAGuard guard(channel->gpu());
    const device::StreamScope scope(channel->stream(), channel->gpu());
    on_gpu_of(gradient, work);
  }

  void on_gpu_of(const at::Tensor& gradient, const std::function<void()>& work) override {
    const auto gpu = static_cast<c10::DeviceIndex>(gradient.get_device());
    if (gpu == c10::cuda::current_device()) return work();
    const device::StreamEvent before = device::record_stream_event();
    const c10::cuda::CUDAGuard guard(gpu);
    const c10::cuda::CUDAStream stream = stream_on(gpu);
    device::await_stream_event(before, stream);
    const device::StreamScope scope(stream, gpu);
    work();
  }

  void drain() override { channel->drain(); }

 private:
  static std::size_t bytes_of(const SumRange& range) {
    return static_cast<std::size_t>(range.count) * sizeof(float);
  }
  static std::int64_t aligned(std::int64_t count) { return (count + kAligned - 1) / kAligned * kAligned; }

  // One stream for each GPU here.
  c10::cuda::CUDAStream stream_on(c10::DeviceIndex gpu) {
    if (gpu == channel->gpu()) return channel->stream();
    const auto found = streams_.find(gpu);
    if (found != streams_.end()) return found->second;
    return streams_.emplace(gpu, c10::cuda::getStreamFromPool(/*isHighPriority=*/true, gpu)).first->second;
  }

  at::Tensor on_this_gpu(const at::Tensor& gradient) const {
    return gradient.to(channel->stream().device(), /*non_blocking=*/true);
  }

  // Elements of an owner in a round, equal in all processes. A process with several owners adds a piece of
  // each.
  std::int64_t piece() const {
    if (given_.empty()) return kPiece;
    std::int64_t most = 1;
    for (const int rank : processes) most = std::max<std::int64_t>(most, std::ranges::count(ranks, rank));
    return kPiece / most / kAligned * kAligned;
  }

  // Plans the rounds, and allocates room for one: a row for each replica elsewhere.
  void plan(const at::Tensor& buffer) {
    if (planned_ == buffer.numel()) return;
    planned_ = buffer.numel();
    ranges_ = given_.empty() ? SumRanges{{.count = planned_}} : given_;
    rounds_ = sum_rounds(ranges_, ranks, piece());
    std::int64_t width = kAligned;
    for (const SumRound& round : rounds_) {
      std::int64_t mine = 0;
      for (const SumChunk& chunk : round) mine += is_here(chunk.rank) ? aligned(chunk.range.count) : 0;
      width = std::max(width, mine);
    }
    const auto here = std::ranges::count(ranks, own);
    room_ = at::empty({std::ssize(ranks) - here, width}, buffer.options());
  }

  void gather(const std::vector<at::Tensor>& buffers, const SumRound& round) const {
    channel->queue([&](const NcclChannel::Group& group) {
      std::int64_t column = 0;
      for (const SumChunk& chunk : round) {
        if (!is_here(chunk.rank)) continue;
        std::int64_t row = 0;
        for (const int rank : ranks) {
          if (!is_here(rank)) group.receive(room_at(row++, column), bytes_of(chunk.range), index_of(rank));
        }
        column += aligned(chunk.range.count);
      }
      for (const SumChunk& chunk : round) {
        if (is_here(chunk.rank)) continue;
        for (const at::Tensor& buffer : buffers)
          group.send(buffer.const_data_ptr<float>() + chunk.range.begin, bytes_of(chunk.range),
                     index_of(chunk.rank));
      }
    });
  }

  void add(const std::vector<at::Tensor>& buffers, const SumRound& round) const {
    std::int64_t column = 0;
    for (const SumChunk& chunk : round) {
      if (!is_here(chunk.rank)) continue;
      const auto place_in = [&](const at::Tensor& buffer) {
        return buffer.mutable_data_ptr<float>() + chunk.range.begin;
      };
      cuda::Buffers from, to;
      std::int64_t row = 0;
      for (int replica = 0; replica < std::ssize(ranks); ++replica)
        from.add(is_here(ranks[replica]) ? place_in(buffers[replica - first_]) : room_at(row++, column));
      to.add(place_in(taken_by(buffers, chunk.range)));
      cuda::add_replicas(from, to, chunk.range.count, channel->stream());
      column += aligned(chunk.range.count);
    }
  }

  // The sums of other processes' parts arrive in the buffers that the parts were sent from.
  void spread(const at::Tensor& buffer, const SumRound& round) const {
    float* data = buffer.mutable_data_ptr<float>();
    channel->queue([&](const NcclChannel::Group& group) {
      for (const SumChunk& chunk : round) {
        if (chunk.range.owner != SumRange::kAll) continue;
        float* sum = data + chunk.range.begin;
        if (!is_here(chunk.rank)) {
          group.receive(sum, bytes_of(chunk.range), index_of(chunk.rank));
          continue;
        }
        for (const int rank : processes) {
          if (!is_here(rank)) group.send(sum, bytes_of(chunk.range), index_of(rank));
        }
      }
    });
  }

  // Copies the sum into the other gradients here, including those on another GPU.
  void hand_out(const std::vector<at::Tensor>& buffers, const std::vector<Contribution>& here) const {
    for (const SumRange& range : ranges_) {
      if (range.owner != SumRange::kAll && !is_here(ranks[range.owner])) continue;
      const at::Tensor& sum = taken_by(buffers, range);
      for (int i = 0; i < std::ssize(here); ++i) {
        const at::Tensor& gradient = here[i].gradient;
        const bool takes = range.owner == SumRange::kAll || range.owner == first_ + i;
        if (takes && gradient.const_data_ptr() != sum.const_data_ptr())
          gradient.narrow(0, range.begin, range.count)
              .copy_(sum.narrow(0, range.begin, range.count), /*non_blocking=*/true);
      }
    }
  }

  // The buffer that receives the sum first.
  const at::Tensor& taken_by(const std::vector<at::Tensor>& buffers, const SumRange& range) const {
    return range.owner == SumRange::kAll ? buffers.front() : buffers[range.owner - first_];
  }
  float* room_at(std::int64_t row, std::int64_t column) const {
    return room_.mutable_data_ptr<float>() + row * room_.size(1) + column;
  }

  int first_ = 0;  // replica here
  SumRanges given_, ranges_;
  std::int64_t planned_ = -1;  // elements
  std::vector<SumRound> rounds_;
  at::Tensor room_;
  std::map<c10::DeviceIndex, c10::cuda::CUDAStream> streams_;  // on other GPUs here
};

class NcclGatherer final : public GpuGatherer, Members {
 public:
  NcclGatherer(Members members, std::vector<weights::Range> parts)
      : Members(std::move(members)), parts_(std::move(parts)) {}

  void await(const Gathered& here) override {
    for (const auto& [replica, buffer] : here) channel->await(buffer.ready);
  }

  // Between two processes parts travel in the order of the replicas. The first buffer is on the channel's
  // GPU; parts of buffers on other GPUs are copied there first.
  device::StreamEvent exchange(const Gathered& here) override {
    const c10::cuda::CUDAStreamGuard guard(channel->stream());
    const at::Tensor& first = here.begin()->second.whole;
    std::map<int, at::Tensor> leaving;
    for (const auto& [replica, buffer] : here)
      leaving[replica] = parts_[replica].of(buffer.whole).to(channel->stream().device());
    channel->queue([&](const NcclChannel::Group& group) {
      for (std::size_t replica = 0; replica < ranks.size(); ++replica) {
        if (ranks[replica] == own || parts_[replica].count == 0) continue;
        const at::Tensor into = parts_[replica].of(first);
        group.receive(into.mutable_data_ptr(), into.nbytes(), index_of(ranks[replica]));
      }
      for (const auto& [replica, part] : leaving) {
        for (int process = 0; process < std::ssize(processes); ++process) {
          if (processes[process] != own && part.numel() > 0)
            group.send(part.const_data_ptr(), part.nbytes(), process);
        }
      }
    });
    return channel->record();
  }

  void drain() override { channel->drain(); }

 private:
  std::vector<weights::Range> parts_;  // by replica
};

}  // namespace

std::unique_ptr<GpuAdder> nccl_adder(std::shared_ptr<NcclChannel> channel, std::vector<int> ranks, int own,
                                     SumRanges ranges) {
  return std::make_unique<NcclAdder>(Members(std::move(channel), std::move(ranks), own), std::move(ranges));
}

std::unique_ptr<GpuGatherer> nccl_gatherer(std::shared_ptr<NcclChannel> channel, std::vector<int> ranks,
                                           int own, std::vector<weights::Range> parts) {
  return std::make_unique<NcclGatherer>(Members(std::move(channel), std::move(ranks), own), std::move(parts));
}

}  // namespace twobw::transport
