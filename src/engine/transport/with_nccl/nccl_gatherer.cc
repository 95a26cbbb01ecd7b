#include "engine/transport/nccl_gatherer.h"

#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <utility>

namespace twobw::transport {
namespace {

class NcclGatherer final : public GpuGatherer {
 public:
  NcclGatherer(std::shared_ptr<NcclChannel> channel, std::vector<int> ranks, int own,
               std::vector<weights::Range> parts)
      : channel_(std::move(channel)), ranks_(std::move(ranks)), own_rank_(own), parts_(std::move(parts)) {
    std::ranges::unique_copy(ranks_, std::back_inserter(processes_));
  }

  void await(const Gathered& here) override {
    for (const auto& [replica, buffer] : here) channel_->await(buffer.ready);
  }

  // Between two processes parts travel in the order of the replicas. The first buffer is on the channel's
  // GPU; parts from others are brought there.
  device::StreamEvent exchange(const Gathered& here) override {
    const c10::cuda::CUDAStreamGuard guard(channel_->stream());
    const at::Tensor& first = here.begin()->second.whole;
    std::map<int, at::Tensor> leaving;
    for (const auto& [replica, buffer] : here)
      leaving[replica] = parts_[replica].of(buffer.whole).to(channel_->stream().device());
    channel_->queue([&](const NcclChannel::Group& group) {
      for (std::size_t replica = 0; replica < ranks_.size(); ++replica) {
        if (ranks_[replica] == own_rank_ || parts_[replica].count == 0) continue;
        const at::Tensor into = parts_[replica].of(first);
        group.receive(into.mutable_data_ptr(), into.nbytes(), index_of(ranks_[replica]));
      }
      for (const auto& [replica, part] : leaving) {
        for (int process = 0; process < std::ssize(processes_); ++process) {
          if (processes_[process] != own_rank_ && part.numel() > 0)
            group.send(part.const_data_ptr(), part.nbytes(), process);
        }
      }
    });
    return channel_->record();
  }

  void drain() override { channel_->drain(); }

 private:
  int index_of(int rank) const {
    return static_cast<int>(std::ranges::find(processes_, rank) - processes_.begin());
  }

  std::shared_ptr<NcclChannel> channel_;
  std::vector<int> ranks_;      // of each replica
  std::vector<int> processes_;  // their ranks, each once
  int own_rank_;
  std::vector<weights::Range> parts_;  // by replica
};

}  // namespace

std::unique_ptr<GpuGatherer> nccl_gatherer(std::shared_ptr<NcclChannel> channel, std::vector<int> ranks,
                                           int own, std::vector<weights::Range> parts) {
  return std::make_unique<NcclGatherer>(std::move(channel), std::move(ranks), own, std::move(parts));
}

}  // namespace twobw::transport
