#include "transport/nccl_adder.h"

#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <utility>

#include "device/gpu.h"
#include "transport/add_replicas_cuda.h"

namespace twobw::transport {
namespace {

constexpr std::int64_t kPiece = 4 << 20;  // elements that a process adds in a round
constexpr std::int64_t kAligned = 4;      // elements, 16 bytes, that parts begin on multiples of

class NcclAdder final : public GpuAdder {
 public:
  NcclAdder(std::shared_ptr<NcclChannel> channel, std::vector<int> ranks, int own)
      : channel_(std::move(channel)), ranks_(std::move(ranks)), own_rank_(own) {
    std::ranges::unique_copy(ranks_, std::back_inserter(processes_));
    own_ = index_of(own);
    first_ = static_cast<int>(std::ranges::find(ranks_, own) - ranks_.begin());
  }

  void await(const std::vector<Contribution>& here) override {
    for (const Contribution& one : here) channel_->await(one.ready);
  }

  void add_up(const std::vector<Contribution>& here) override {
    const c10::cuda::CUDAStreamGuard guard(channel_->stream());
    const std::int64_t size = here.front().gradient.numel(), step = kPiece * std::ssize(processes_);
    std::vector<at::Tensor> buffers;
    for (const Contribution& one : here) buffers.push_back(on_this_gpu(one.gradient));
    make_room(buffers.front());
    for (std::int64_t begin = 0; begin < size; begin += step) {
      const std::int64_t end = std::min(size, begin + step);
      gather(buffers, begin, end);
      add(buffers, begin, end);
      spread(buffers.front(), begin, end);
    }
    // Also into the first one's own, where that is on another GPU.
    for (const Contribution& one : here) {
      if (one.gradient.const_data_ptr() != buffers.front().const_data_ptr())
        one.gradient.copy_(buffers.front(), /*non_blocking=*/true);
    }
    channel_->record();
  }

  void afterwards(const std::function<void()>& work) override {
    const c10::cuda::CUDAGuard guard(channel_->gpu());
    const device::StreamScope scope(channel_->stream(), channel_->gpu());
    work();
  }

  void drain() override { channel_->drain(); }

 private:
  struct Part {
    std::int64_t begin = 0, count = 0;
    std::size_t bytes() const { return static_cast<std::size_t>(count) * sizeof(float); }
  };

  int index_of(int rank) const {
    return static_cast<int>(std::ranges::find(processes_, rank) - processes_.begin());
  }
  bool is_here(int rank) const { return rank == own_rank_; }

  at::Tensor on_this_gpu(const at::Tensor& gradient) const {
    return gradient.to(channel_->stream().device(), /*non_blocking=*/true);
  }

  // A row a replica elsewhere.
  void make_room(const at::Tensor& buffer) {
    const std::int64_t width = std::min((buffer.numel() + kAligned - 1) / kAligned * kAligned, kPiece);
    if (room_.defined() && room_.size(1) >= width) return;
    const auto here = std::ranges::count(ranks_, own_rank_);
    room_ = at::empty({std::ssize(ranks_) - here, width}, buffer.options());
  }

  // What a process adds of [begin, end), which begins on a multiple.
  Part part_of(std::int64_t begin, std::int64_t end, int process) const {
    const std::int64_t parts = std::ssize(processes_), share = (end - begin + parts - 1) / parts;
    const std::int64_t each = (share + kAligned - 1) / kAligned * kAligned;
    const std::int64_t from = std::min(end, begin + each * process);
    return {from, std::min(end, from + each) - from};
  }

  void gather(const std::vector<at::Tensor>& buffers, std::int64_t begin, std::int64_t end) const {
    const Part mine = part_of(begin, end, own_);
    channel_->queue([&](const NcclChannel::Group& group) {
      std::int64_t row = 0;
      for (const int rank : ranks_) {
        if (is_here(rank)) continue;
        float* into = room_[row++].mutable_data_ptr<float>();
        if (mine.count > 0) group.receive(into, mine.bytes(), index_of(rank));
      }
      for (int process = 0; process < std::ssize(processes_); ++process) {
        const Part theirs = part_of(begin, end, process);
        if (process == own_ || theirs.count == 0) continue;
        for (const at::Tensor& buffer : buffers)
          group.send(buffer.const_data_ptr<float>() + theirs.begin, theirs.bytes(), process);
      }
    });
  }

  void add(const std::vector<at::Tensor>& buffers, std::int64_t begin, std::int64_t end) const {
    const Part mine = part_of(begin, end, own_);
    cuda::Buffers from, to;
    std::int64_t row = 0;
    for (int replica = 0; replica < std::ssize(ranks_); ++replica) {
      from.add(is_here(ranks_[replica]) ? buffers[replica - first_].mutable_data_ptr<float>() + mine.begin
                                        : room_[row++].mutable_data_ptr<float>());
    }
    to.add(buffers.front().mutable_data_ptr<float>() + mine.begin);
    cuda::add_replicas(from, to, mine.count, channel_->stream());
  }

  // The sums of the others' parts come to where those parts were sent from.
  void spread(const at::Tensor& buffer, std::int64_t begin, std::int64_t end) const {
    const Part mine = part_of(begin, end, own_);
    float* data = buffer.mutable_data_ptr<float>();
    channel_->queue([&](const NcclChannel::Group& group) {
      for (int process = 0; process < std::ssize(processes_); ++process) {
        const Part theirs = part_of(begin, end, process);
        if (process == own_) continue;
        if (theirs.count > 0) group.receive(data + theirs.begin, theirs.bytes(), process);
        if (mine.count > 0) group.send(data + mine.begin, mine.bytes(), process);
      }
    });
  }

  std::shared_ptr<NcclChannel> channel_;
  std::vector<int> ranks_;      // of each replica
  std::vector<int> processes_;  // their ranks, each once
  int own_rank_, own_ = 0;      // and its place among those
  int first_ = 0;               // replica here
  at::Tensor room_;
};

}  // namespace

std::unique_ptr<GpuAdder> nccl_adder(std::shared_ptr<NcclChannel> channel, std::vector<int> ranks, int own) {
  return std::make_unique<NcclAdder>(std::move(channel), std::move(ranks), own);
}

}  // namespace twobw::transport
