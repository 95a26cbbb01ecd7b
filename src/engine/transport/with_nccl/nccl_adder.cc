#include "engine/transport/nccl_adder.h"

#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <map>
#include <utility>

#include "engine/device/gpu.h"
#include "engine/transport/add_replicas_cuda.h"
#include "engine/transport/sum_rounds.h"

namespace twobw::transport {
namespace {

constexpr std::int64_t kPiece = 4 << 20;  // elements that a process adds in a round
constexpr std::int64_t kAligned = 4;      // elements, 16 bytes, that they begin on multiples of

class NcclAdder final : public GpuAdder {
 public:
  NcclAdder(std::shared_ptr<NcclChannel> channel, std::vector<int> ranks, int own, SumRanges ranges)
      : channel_(std::move(channel)), ranks_(std::move(ranks)), own_rank_(own), given_(std::move(ranges)) {
    std::ranges::unique_copy(ranks_, std::back_inserter(processes_));
    first_ = static_cast<int>(std::ranges::find(ranks_, own) - ranks_.begin());
  }

  void await(const std::vector<Contribution>& here) override {
    for (const Contribution& one : here) channel_->await(one.ready);
  }

  void add_up(const std::vector<Contribution>& here) override {
    const c10::cuda::CUDAStreamGuard guard(channel_->stream());
    std::vector<at::Tensor> buffers;
    for (const Contribution& one : here) buffers.push_back(on_this_gpu(one.gradient));
    plan(buffers.front());
    for (const SumRound& round : rounds_) {
      gather(buffers, round);
      add(buffers, round);
      spread(buffers.front(), round);
    }
    hand_out(buffers, here);
    channel_->record();
  }

  void afterwards(const at::Tensor& gradient, const std::function<void()>& work) override {
    const c10::cuda::CUDAGuard guard(channel_->gpu());
    const device::StreamScope scope(channel_->stream(), channel_->gpu());
    beside(gradient, work);
  }

  void beside(const at::Tensor& gradient, const std::function<void()>& work) override {
    const auto gpu = static_cast<c10::DeviceIndex>(gradient.get_device());
    if (gpu == c10::cuda::current_device()) return work();
    const device::StreamEvent before = device::record_stream_event();
    const c10::cuda::CUDAGuard guard(gpu);
    const c10::cuda::CUDAStream stream = stream_on(gpu);
    device::await_stream_event(before, stream);
    const device::StreamScope scope(stream, gpu);
    work();
  }

  void drain() override { channel_->drain(); }

 private:
  static std::size_t bytes_of(const SumRange& range) {
    return static_cast<std::size_t>(range.count) * sizeof(float);
  }
  static std::int64_t aligned(std::int64_t count) { return (count + kAligned - 1) / kAligned * kAligned; }

  int index_of(int rank) const {
    return static_cast<int>(std::ranges::find(processes_, rank) - processes_.begin());
  }
  bool is_here(int rank) const { return rank == own_rank_; }

  // One of each GPU here.
  c10::cuda::CUDAStream stream_on(c10::DeviceIndex gpu) {
    if (gpu == channel_->gpu()) return channel_->stream();
    const auto found = beside_.find(gpu);
    if (found != beside_.end()) return found->second;
    return beside_.emplace(gpu, c10::cuda::getStreamFromPool(/*isHighPriority=*/true, gpu)).first->second;
  }

  at::Tensor on_this_gpu(const at::Tensor& gradient) const {
    return gradient.to(channel_->stream().device(), /*non_blocking=*/true);
  }

  // The same in all processes; of several owners in one it adds a piece of each in a round.
  std::int64_t piece() const {
    if (given_.empty()) return kPiece;
    std::int64_t most = 1;
    for (const int rank : processes_) most = std::max<std::int64_t>(most, std::ranges::count(ranks_, rank));
    return kPiece / most / kAligned * kAligned;
  }

  // Rounds, and room for what comes in one: a row a replica elsewhere.
  void plan(const at::Tensor& buffer) {
    if (planned_ == buffer.numel()) return;
    planned_ = buffer.numel();
    ranges_ = given_.empty() ? SumRanges{{.count = planned_}} : given_;
    rounds_ = sum_rounds(ranges_, ranks_, piece());
    std::int64_t width = kAligned;
    for (const SumRound& round : rounds_) {
      std::int64_t mine = 0;
      for (const SumChunk& chunk : round) mine += is_here(chunk.rank) ? aligned(chunk.range.count) : 0;
      width = std::max(width, mine);
    }
    const auto here = std::ranges::count(ranks_, own_rank_);
    room_ = at::empty({std::ssize(ranks_) - here, width}, buffer.options());
  }

  void gather(const std::vector<at::Tensor>& buffers, const SumRound& round) const {
    channel_->queue([&](const NcclChannel::Group& group) {
      std::int64_t column = 0;
      for (const SumChunk& chunk : round) {
        if (!is_here(chunk.rank)) continue;
        std::int64_t row = 0;
        for (const int rank : ranks_) {
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
      for (int replica = 0; replica < std::ssize(ranks_); ++replica)
        from.add(is_here(ranks_[replica]) ? place_in(buffers[replica - first_]) : room_at(row++, column));
      to.add(place_in(taken_by(buffers, chunk.range)));
      cuda::add_replicas(from, to, chunk.range.count, channel_->stream());
      column += aligned(chunk.range.count);
    }
  }

  // The sums of the others' parts come to where those parts were sent from.
  void spread(const at::Tensor& buffer, const SumRound& round) const {
    float* data = buffer.mutable_data_ptr<float>();
    channel_->queue([&](const NcclChannel::Group& group) {
      for (const SumChunk& chunk : round) {
        if (chunk.range.owner != SumRange::kAll) continue;
        float* sum = data + chunk.range.begin;
        if (!is_here(chunk.rank)) {
          group.receive(sum, bytes_of(chunk.range), index_of(chunk.rank));
          continue;
        }
        for (const int rank : processes_) {
          if (!is_here(rank)) group.send(sum, bytes_of(chunk.range), index_of(rank));
        }
      }
    });
  }

  // Into the gradients here whose buffer the sum did not come to, also of one that is on another GPU.
  void hand_out(const std::vector<at::Tensor>& buffers, const std::vector<Contribution>& here) const {
    for (const SumRange& range : ranges_) {
      if (range.owner != SumRange::kAll && !is_here(ranks_[range.owner])) continue;
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

  // Where the sum comes to first.
  const at::Tensor& taken_by(const std::vector<at::Tensor>& buffers, const SumRange& range) const {
    return range.owner == SumRange::kAll ? buffers.front() : buffers[range.owner - first_];
  }
  float* room_at(std::int64_t row, std::int64_t column) const {
    return room_.mutable_data_ptr<float>() + row * room_.size(1) + column;
  }

  std::shared_ptr<NcclChannel> channel_;
  std::vector<int> ranks_;      // of each replica
  std::vector<int> processes_;  // their ranks, each once
  int own_rank_;
  int first_ = 0;  // replica here
  SumRanges given_, ranges_;
  std::int64_t planned_ = -1;  // elements
  std::vector<SumRound> rounds_;
  at::Tensor room_;
  std::map<c10::DeviceIndex, c10::cuda::CUDAStream> beside_;  // of other GPUs here
};

}  // namespace

std::unique_ptr<GpuAdder> nccl_adder(std::shared_ptr<NcclChannel> channel, std::vector<int> ranks, int own,
                                     SumRanges ranges) {
  return std::make_unique<NcclAdder>(std::move(channel), std::move(ranks), own, std::move(ranges));
}

}  // namespace twobw::transport
