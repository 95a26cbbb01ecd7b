#include "engine/transport/gather.h"

#include <fmt/format.h>

#include "engine/transport/sum_rounds.h"

namespace twobw::transport {

RemoteGather::RemoteGather(RemoteReplicas replicas, std::vector<weights::Range> parts,
                           std::shared_ptr<GpuGatherer> gpu)
    : replicas_(std::move(replicas)),
      processes_(distinct(replicas_.ranks)),
      parts_(std::move(parts)),
      gpu_(std::move(gpu)),
      thread_(start_helper_thread(replicas_.name, replicas_.on_failure, [this] { work(); })) {}

RemoteGather::~RemoteGather() {
  jobs_.close();
  thread_.join();
}

void RemoteGather::put(Gathered buffers, Done done) {
  jobs_.put({std::move(buffers), std::move(done)});
}

void RemoteGather::work() {
  while (const std::optional<Job> job = jobs_.take()) job->done(exchange(job->buffers));
  if (!gpu_) return;
  gpu_->drain();
  barrier(replicas_.wire, replicas_.tag, processes_);  // a peer may still read this GPU's memory
}

// Posts receives first: a send may complete only when it is received. Between two processes parts travel in
// the order of the replicas.
device::StreamEvent RemoteGather::exchange(const Gathered& buffers) {
  if (gpu_) {
    gpu_->await(buffers);
    barrier(replicas_.wire, replicas_.tag, processes_);
    return gpu_->exchange(buffers);
  }
  std::vector<std::shared_ptr<Transfer>> transfers;
  const at::Tensor& whole = buffers.begin()->second.whole;
  for (std::size_t replica = 0; replica < parts_.size(); ++replica) {
    if (replicas_.ranks[replica] == replicas_.wire.rank() || parts_[replica].count == 0) continue;
    transfers.push_back(
        replicas_.wire.receive(replicas_.ranks[replica], replicas_.tag, parts_[replica].of(whole)));
  }
  for (const auto& [replica, buffer] : buffers) {
    for (const int rank : processes_) {
      if (rank != replicas_.wire.rank() && parts_[replica].count > 0)
        transfers.push_back(replicas_.wire.send(rank, replicas_.tag, parts_[replica].of(buffer.whole)));
    }
  }
  for (const auto& transfer : transfers) transfer->wait();
  return nullptr;
}

Gather::Gather(WaitHub& hub, std::vector<weights::Range> parts, int here, RemoteGather* remote)
    : hub_(hub), parts_(std::move(parts)), here_(here), remote_(remote), turns_(parts_.size(), 0) {}

void Gather::run(int replica, const at::Tensor& whole) {
  const std::int64_t number = turns_[replica]++;
  bool last = false;
  Gathered all;
  OwnersBuffer own{.whole = whole, .ready = device::record_stream_event()};
  hub_.update([&] {
    Turn& turn = open_[number];
    turn.buffers.emplace(replica, std::move(own));
    last = static_cast<int>(turn.buffers.size()) == here_;
    if (last) all = turn.buffers;
    if (last && !remote_) turn.ready = true;
  });
  if (last && remote_) {
    remote_->put(std::move(all), [this, number](device::StreamEvent arrived) {
      hub_.update([&] {
        open_.at(number).arrived = std::move(arrived);
        open_.at(number).ready = true;
      });
    });
  }
  const Turn turn = hub_.wait(
      fmt::format("weights from all {} replicas", parts_.size()), [&] { return open_.at(number).ready; },
      [&] { return open_.at(number); });
  take(replica, turn);
  device::StreamEvent taken = device::record_stream_event();
  hub_.update([&] {
    open_.at(number).taken.push_back(std::move(taken));
    ++open_.at(number).left;
  });
  const std::vector<device::StreamEvent> taken_by_all = hub_.wait(
      fmt::format("acknowledgment of the weights from all {} replicas here", here_),
      [&] { return open_.at(number).left >= here_; },
      [&] {
        Turn& ended = open_.at(number);
        std::vector<device::StreamEvent> events = ended.taken;
        if (++ended.left == 2 * here_) open_.erase(number);
        return events;
      });
  for (const device::StreamEvent& event : taken_by_all) device::await_stream_event(event);
}

void Gather::take(int replica, const Turn& turn) const {
  for (const auto& [other, buffer] : turn.buffers) device::await_stream_event(buffer.ready);
  device::await_stream_event(turn.arrived);
  const at::Tensor& own = turn.buffers.at(replica).whole;
  const at::Tensor& received = turn.buffers.begin()->second.whole;
  for (int other = 0; other < std::ssize(parts_); ++other) {
    const auto found = turn.buffers.find(other);
    const at::Tensor& from = found != turn.buffers.end() ? found->second.whole : received;
    if (!from.is_same(own)) parts_[other].of(own).copy_(parts_[other].of(from), /*non_blocking=*/true);
  }
}

}  // namespace twobw::transport
