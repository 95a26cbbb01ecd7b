#include "transport/gather.h"

#include <fmt/format.h>

#include "transport/own_thread.h"

namespace twobw::transport {

RemoteGather::RemoteGather(RemoteGatherSetup setup, std::vector<weights::Range> parts)
    : setup_(std::move(setup)),
      parts_(std::move(parts)),
      thread_(start_own_thread(setup_.name, setup_.on_failure, [this] { work(); })) {}

RemoteGather::~RemoteGather() {
  jobs_.close();
  thread_.join();
}

void RemoteGather::put(ByReplica buffers, std::function<void()> done) {
  jobs_.put({std::move(buffers), std::move(done)});
}

void RemoteGather::work() {
  while (const std::optional<Job> job = jobs_.take()) {
    exchange(job->buffers);
    job->done();
  }
}

// Receives first: a send may be done only when it is received. Between two processes parts travel in the
// order of the replicas.
void RemoteGather::exchange(const ByReplica& buffers) {
  std::vector<std::shared_ptr<Transfer>> transfers;
  const at::Tensor& whole = buffers.begin()->second;
  for (std::size_t replica = 0; replica < parts_.size(); ++replica) {
    if (setup_.ranks[replica] == setup_.wire.rank() || parts_[replica].count == 0) continue;
    transfers.push_back(setup_.wire.receive(setup_.ranks[replica], setup_.tag, parts_[replica].of(whole)));
  }
  for (const auto& [replica, buffer] : buffers) {
    int last = setup_.wire.rank();
    for (const int rank : setup_.ranks) {
      if (rank == setup_.wire.rank() || rank == last || parts_[replica].count == 0) continue;
      transfers.push_back(setup_.wire.send(rank, setup_.tag, parts_[replica].of(buffer)));
      last = rank;
    }
  }
  for (const auto& transfer : transfers) transfer->wait();
}

Gather::Gather(Hub& hub, std::vector<weights::Range> parts, int here, RemoteGather* remote)
    : hub_(hub), parts_(std::move(parts)), here_(here), remote_(remote), turns_(parts_.size(), 0) {}

void Gather::run(int replica, const at::Tensor& whole) {
  const std::int64_t number = turns_[replica]++;
  bool last = false;
  std::map<int, at::Tensor> all;
  hub_.update([&] {
    Turn& turn = open_[number];
    turn.buffers.emplace(replica, whole);
    last = static_cast<int>(turn.buffers.size()) == here_;
    if (last) all = turn.buffers;
    if (last && !remote_) turn.ready = true;
  });
  if (last && remote_)
    remote_->put(std::move(all), [this, number] { hub_.update([&] { open_.at(number).ready = true; }); });
  const std::map<int, at::Tensor> buffers = hub_.wait(
      fmt::format("weights from all {} replicas", parts_.size()), [&] { return open_.at(number).ready; },
      [&] { return open_.at(number).buffers; });
  take(replica, buffers);
  hub_.update([&] { ++open_.at(number).left; });
  hub_.wait(
      fmt::format("word that all {} replicas here have the weights", here_),
      [&] { return open_.at(number).left >= here_; },
      [&] {
        Turn& turn = open_.at(number);
        if (++turn.left == 2 * here_) open_.erase(number);
        return true;
      });
}

void Gather::take(int replica, const std::map<int, at::Tensor>& buffers) const {
  const at::Tensor& own = buffers.at(replica);
  const at::Tensor& received = buffers.begin()->second;
  for (int other = 0; other < std::ssize(parts_); ++other) {
    const auto found = buffers.find(other);
    const at::Tensor& from = found != buffers.end() ? found->second : received;
    if (from.is_same(own)) continue;
    parts_[other].of(own).copy_(parts_[other].of(from));
  }
}

}  // namespace twobw::transport
