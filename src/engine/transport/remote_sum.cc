#include "engine/transport/remote_sum.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "core/base/error.h"
#include "engine/optim/kernels.h"

namespace twobw::transport {
namespace {

constexpr std::int64_t kCached = 1 << 12;  // elements whose sum stays in the L1 cache
constexpr int kParts = 0, kSums = 1;       // of the tags

}  // namespace

// Sum over the replicas of this process. The first caller of advance() begins it.
class RemoteSum final : public ReplicaSum {
 public:
  RemoteSum(RemoteSums& sums, std::vector<Contribution> all) : sums_(sums), all_(std::move(all)) {}

  bool advance() override { return !begun_.exchange(true); }
  void then(int replica, const std::function<void()>& work) override {
    sums_.jobs_.put({all_, replica - sums_.first_replica(), work});
  }

  void share(int replica, std::int64_t offset, std::int64_t count) const override {
    const int own = replica - sums_.first_replica();
    const at::Tensor values = all_[own].gradient.narrow(0, offset, count);
    for (int other = 0; other < std::ssize(all_); ++other) {
      if (other != own) all_[other].gradient.narrow(0, offset, count).copy_(values, /*non_blocking=*/true);
    }
  }

  void for_each(const Visit& visit) const override {
    for (int i = 0; i < std::ssize(all_); ++i) {
      const auto work = [&] { visit(sums_.first_replica() + i, all_[i]); };
      sums_.gpu_ ? sums_.gpu_->on_gpu_of(all_[i].gradient, work) : work();
    }
  }

 private:
  RemoteSums& sums_;
  std::vector<Contribution> all_;
  std::atomic<bool> begun_ = false;
};

// Some elements of all buffers, of which every process adds a part.
struct RemoteSums::Round {
  const SumRound* chunks = nullptr;
  at::Tensor room;
  std::vector<std::shared_ptr<Transfer>> arriving, leaving;
};

RemoteSums::RemoteSums(RemoteReplicas replicas, SumRanges ranges, std::shared_ptr<GpuAdder> gpu,
                       std::int64_t piece)
    : replicas_(std::move(replicas)), ranges_(std::move(ranges)), gpu_(std::move(gpu)), piece_(piece) {
  const std::vector<int>& ranks = replicas_.ranks;
  TWOBW_ASSERT(std::ranges::is_sorted(ranks), "replicas are not in the order of the processes");
  processes_ = distinct(ranks);
  const auto own = std::ranges::equal_range(ranks, replicas_.wire.rank());
  TWOBW_ASSERT(!own.empty(), "process {} has no replica", replicas_.wire.rank());
  first_ = static_cast<int>(own.begin() - ranks.begin());
  count_ = static_cast<int>(own.size());
  thread_ = start_helper_thread(replicas_.name, replicas_.on_failure, [this] { work(); });
}

RemoteSums::~RemoteSums() {
  jobs_.close();
  thread_.join();
}

MakeSum RemoteSums::make() {
  return [this](std::vector<Contribution> all) { return std::make_shared<RemoteSum>(*this, std::move(all)); };
}

void RemoteSums::work() {
  while (const std::optional<Job> job = jobs_.take()) do_job(*job);
  if (!gpu_) return;
  gpu_->drain();
  barrier(replicas_.wire, replicas_.tag + kParts, processes_);  // a peer may still read this GPU's memory
}

void RemoteSums::do_job(const Job& job) {
  if (gpu_) {
    gpu_->await(job.parts);
    barrier(replicas_.wire, replicas_.tag + kParts, processes_);
    gpu_->add_up(job.parts);
    return gpu_->then(job.parts[job.part].gradient, job.then);
  }
  std::vector<at::Tensor> buffers;
  for (const Contribution& one : job.parts) buffers.push_back(one.gradient);
  add_up(buffers);
  job.then();
}

void RemoteSums::plan(std::int64_t size) {
  if (ranges_.empty()) ranges_ = {{.count = size}};
  rounds_ = sum_rounds(ranges_, replicas_.ranks, piece_);
  std::int64_t most = 0;
  for (const SumRound& round : rounds_) {
    std::int64_t mine = 0;
    for (const SumChunk& chunk : round) mine += is_mine(chunk) ? chunk.range.count : 0;
    most = std::max(most, mine);
  }
  for (int i = 0; i < 2; ++i)
    room_.push_back(at::empty({std::ssize(replicas_.ranks) - count_, most}, at::kFloat));
}

// Two rounds are in flight at a time.
void RemoteSums::add_up(const std::vector<at::Tensor>& buffers) {
  if (room_.empty()) plan(buffers.front().numel());
  const auto rounds = std::ssize(rounds_);
  std::array<Round, 2> in_flight;
  std::vector<std::shared_ptr<Transfer>> spreading;
  for (std::int64_t i = 0; i <= rounds; ++i) {
    if (i < rounds) {
      in_flight[i % 2] = {.chunks = &rounds_[i], .room = room_[i % 2]};
      begin_round(buffers, in_flight[i % 2]);
    }
    if (i > 0) finish_round(buffers, in_flight[(i - 1) % 2], spreading);
  }
  for (const auto& transfer : spreading) transfer->wait();
  for (const SumRange& range : ranges_) {
    const float* sum = buffers.front().const_data_ptr<float>() + range.begin;
    for (int i = 1; range.owner == SumRange::kAll && i < count_; ++i)
      std::copy_n(sum, range.count, buffers[i].mutable_data_ptr<float>() + range.begin);
  }
}

// Posts receives first: a send may complete only when it is received.
void RemoteSums::begin_round(const std::vector<at::Tensor>& buffers, Round& round) {
  std::int64_t column = 0;
  for (const SumChunk& chunk : *round.chunks) {
    if (!is_mine(chunk)) continue;
    std::int64_t row = 0;
    for (const int from : replicas_.ranks) {
      if (from == replicas_.wire.rank()) continue;
      const at::Tensor into = round.room[row++].narrow(0, column, chunk.range.count);
      round.arriving.push_back(replicas_.wire.receive(from, replicas_.tag + kParts, into));
    }
    column += chunk.range.count;
  }
  for (const SumChunk& chunk : *round.chunks) {
    if (is_mine(chunk)) continue;
    for (const at::Tensor& buffer : buffers) {
      round.leaving.push_back(replicas_.wire.send(chunk.rank, replicas_.tag + kParts,
                                                  buffer.narrow(0, chunk.range.begin, chunk.range.count)));
    }
  }
}

// The sums of other processes' parts arrive in the buffers that the parts were sent from.
void RemoteSums::finish_round(const std::vector<at::Tensor>& buffers, Round& round,
                              std::vector<std::shared_ptr<Transfer>>& spreading) {
  for (const auto& transfer : round.arriving) transfer->wait();
  std::int64_t column = 0;
  for (const SumChunk& chunk : *round.chunks) {
    if (!is_mine(chunk)) continue;
    add_chunk(buffers, chunk.range, round.room.narrow(1, column, chunk.range.count));
    column += chunk.range.count;
  }
  for (const auto& transfer : round.leaving) transfer->wait();
  const auto spread = [&](const SumRange& range) {
    return buffers.front().narrow(0, range.begin, range.count);
  };
  for (const SumChunk& chunk : *round.chunks) {
    if (is_mine(chunk) || chunk.range.owner != SumRange::kAll) continue;
    spreading.push_back(replicas_.wire.receive(chunk.rank, replicas_.tag + kSums, spread(chunk.range)));
  }
  for (const SumChunk& chunk : *round.chunks) {
    if (!is_mine(chunk) || chunk.range.owner != SumRange::kAll) continue;
    for (const int rank : processes_) {
      if (rank != replicas_.wire.rank())
        spreading.push_back(replicas_.wire.send(rank, replicas_.tag + kSums, spread(chunk.range)));
    }
  }
}

// `room`: the values of replicas elsewhere.
void RemoteSums::add_chunk(const std::vector<at::Tensor>& buffers, const SumRange& range,
                           const at::Tensor& room) const {
  std::vector<const float*> parts;  // by replica
  std::int64_t row = 0;
  for (int replica = 0; replica < std::ssize(replicas_.ranks); ++replica) {
    const bool is_here = replicas_.ranks[replica] == replicas_.wire.rank();
    parts.push_back(is_here ? buffers[replica - first_].const_data_ptr<float>() + range.begin
                            : room[row++].const_data_ptr<float>());
  }
  const int taker = range.owner == SumRange::kAll ? 0 : range.owner - first_;
  float* to = buffers[taker].mutable_data_ptr<float>() + range.begin;
  std::array<float, kCached> sum;
  for (std::int64_t begin = 0; begin < range.count; begin += kCached) {
    const std::int64_t count = std::min(kCached, range.count - begin);
    std::copy_n(parts.front() + begin, count, sum.begin());
    for (std::size_t replica = 1; replica < parts.size(); ++replica)
      optim::add(sum.data(), parts[replica] + begin, count);
    std::copy_n(sum.begin(), count, to + begin);
  }
}

}  // namespace twobw::transport
