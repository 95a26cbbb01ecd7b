// Wires in memory whose time is counted, not taken: every rank has a clock of its own, which stands still but
// where the rank waits for a transfer. So measurements depend on bytes and links alone.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/transport/wire.h"
#include "planning/planner/hardware/cluster.h"
#include "tests/engine/support/memory_wire.h"

namespace twobw::measure {

// The links between ranks, which all wires share: first in, first out.
class SimulatedNetwork {
 public:
  using LinkOf = std::function<planner::LinkSpec(int from, int to)>;
  SimulatedNetwork(int size, LinkOf link_of) : link_of_(std::move(link_of)), clocks_(size) {}

  // One end for each rank.
  std::vector<std::unique_ptr<transport::Wire>> wires();

  // Each rank's clock is for its own thread.
  double now(int rank) const { return clocks_[rank]; }
  std::function<double()> clock(int rank) {
    return [this, rank] { return now(rank); };
  }
  std::int64_t sent() const { return sent_; }  // bytes, by all

 private:
  friend class SimulatedWire;
  friend class SimulatedTransfer;
  using Channel = std::tuple<int, int, int, int>;  // wire, from, to, tag

  // When the last byte has left.
  double leave(const Channel& channel, double bytes) {
    const auto [wire, from, to, tag] = channel;
    const planner::LinkSpec link = link_of_(from, to);
    std::lock_guard lock(mutex_);
    double& free = free_[{from, to}];
    free = std::max(free, clocks_[from]) + bytes / link.bandwidth;
    arrivals_[channel].push_back(free + link.latency);
    sent_ += static_cast<std::int64_t>(bytes);
    return free;
  }
  double arrival(const Channel& channel) {
    std::lock_guard lock(mutex_);
    std::deque<double>& times = arrivals_[channel];
    const double time = times.front();
    times.pop_front();
    return time;
  }
  void advance(int rank, double time) { clocks_[rank] = std::max(clocks_[rank], time); }

  LinkOf link_of_;
  std::vector<double> clocks_;  // by rank
  std::mutex mutex_;
  std::map<std::pair<int, int>, double> free_;  // from when on a link is
  std::map<Channel, std::deque<double>> arrivals_;
  std::int64_t sent_ = 0;
  int wires_ = 0;
};

class SimulatedTransfer final : public transport::Transfer {
 public:
  SimulatedTransfer(std::shared_ptr<transport::Transfer> real, std::function<void()> done)
      : real_(std::move(real)), done_(std::move(done)) {}
  void wait() override {
    real_->wait();
    done_();
  }

 private:
  std::shared_ptr<transport::Transfer> real_;
  std::function<void()> done_;
};

class SimulatedWire final : public transport::Wire {
 public:
  SimulatedWire(SimulatedNetwork& network, std::unique_ptr<transport::Wire> real, int number)
      : network_(network), real_(std::move(real)), number_(number) {}

  int rank() const override { return real_->rank(); }
  int size() const override { return real_->size(); }
  std::shared_ptr<transport::Transfer> send(int to, int tag, const at::Tensor& tensor) override {
    const double left = network_.leave({number_, rank(), to, tag}, static_cast<double>(tensor.nbytes()));
    return std::make_shared<SimulatedTransfer>(real_->send(to, tag, tensor),
                                               [this, left] { network_.advance(rank(), left); });
  }
  std::shared_ptr<transport::Transfer> receive(int from, int tag, const at::Tensor& into) override {
    return std::make_shared<SimulatedTransfer>(real_->receive(from, tag, into), [this, from, tag] {
      network_.advance(rank(), network_.arrival({number_, from, rank(), tag}));
    });
  }
  void abort() override { real_->abort(); }

 private:
  SimulatedNetwork& network_;
  std::unique_ptr<transport::Wire> real_;
  int number_;
};

inline std::vector<std::unique_ptr<transport::Wire>> SimulatedNetwork::wires() {
  std::vector<std::unique_ptr<transport::Wire>> all;
  for (auto& real : transport::wires_in_memory(static_cast<int>(clocks_.size())))
    all.push_back(std::make_unique<SimulatedWire>(*this, std::move(real), wires_));
  ++wires_;
  return all;
}

}  // namespace twobw::measure
