// Wires in memory: threads as ranks, which share one board of posted transfers.
#pragma once

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "core/base/error.h"
#include "engine/transport/wait_hub.h"
#include "engine/transport/wire.h"

namespace twobw::transport {

// A send or receive that waits for its counterpart.
struct Posted {
  at::Tensor tensor;
  bool done = false;
};

// State shared by all ranks.
struct MemoryBoard {
  explicit MemoryBoard(int size) : aborted(size, false) {}

  struct Halves {
    std::deque<std::shared_ptr<Posted>> sends, receives;  // one of them is empty
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::tuple<int, int, int>, Halves> waiting;  // by sender, receiver and tag
  std::vector<bool> aborted;                            // by rank
};

class MemoryTransfer final : public Transfer {
 public:
  MemoryTransfer(std::shared_ptr<MemoryBoard> board, int rank, std::shared_ptr<Posted> posted)
      : board_(std::move(board)), rank_(rank), posted_(std::move(posted)) {}

  void wait() override {
    std::unique_lock lock(board_->mutex);
    board_->changed.wait(lock, [this] { return posted_->done || board_->aborted[rank_]; });
    if (!posted_->done) throw Cancelled();
  }

 private:
  std::shared_ptr<MemoryBoard> board_;
  int rank_;
  std::shared_ptr<Posted> posted_;
};

class MemoryWire final : public Wire {
 public:
  MemoryWire(std::shared_ptr<MemoryBoard> board, int rank) : board_(std::move(board)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(board_->aborted.size()); }

  std::shared_ptr<Transfer> send(int to, int tag, const at::Tensor& tensor) override {
    return post({rank_, to, tag}, tensor, /*sends=*/true);
  }
  std::shared_ptr<Transfer> receive(int from, int tag, const at::Tensor& into) override {
    return post({from, rank_, tag}, into, /*sends=*/false);
  }

  void abort() override {
    std::lock_guard lock(board_->mutex);
    board_->aborted[rank_] = true;
    for (auto& [way, halves] : board_->waiting) {
      if (std::get<0>(way) == rank_) halves.sends.clear();
      if (std::get<1>(way) == rank_) halves.receives.clear();
    }
    board_->changed.notify_all();
  }

 private:
  // The second half to arrive copies.
  std::shared_ptr<Transfer> post(std::tuple<int, int, int> way, const at::Tensor& tensor, bool sends) {
    TWOBW_ASSERT(tensor.is_cpu() && tensor.is_contiguous(), "a transfer of a {} tensor that is {}",
                 tensor.is_cpu() ? "CPU" : "GPU", tensor.is_contiguous() ? "whole" : "strided");
    std::lock_guard lock(board_->mutex);
    if (board_->aborted[rank_]) throw Cancelled();
    auto own = std::make_shared<Posted>(Posted{.tensor = tensor});
    MemoryBoard::Halves& halves = board_->waiting[way];
    auto& others = sends ? halves.receives : halves.sends;
    if (others.empty()) {
      (sends ? halves.sends : halves.receives).push_back(own);
    } else {
      const std::shared_ptr<Posted> other = std::move(others.front());
      others.pop_front();
      copy_bytes(sends ? *own : *other, sends ? *other : *own);
      board_->changed.notify_all();
    }
    return std::make_shared<MemoryTransfer>(board_, rank_, std::move(own));
  }

  static void copy_bytes(Posted& from, Posted& to) {
    TWOBW_ASSERT(from.tensor.nbytes() == to.tensor.nbytes(), "{} bytes are sent where {} are received",
                 from.tensor.nbytes(), to.tensor.nbytes());
    if (from.tensor.nbytes() > 0)
      std::memcpy(to.tensor.mutable_data_ptr(), from.tensor.const_data_ptr(), from.tensor.nbytes());
    from.done = to.done = true;
    from.tensor = to.tensor = at::Tensor();
  }

  std::shared_ptr<MemoryBoard> board_;
  int rank_;
};

inline std::vector<std::unique_ptr<Wire>> wires_in_memory(int size) {
  const auto board = std::make_shared<MemoryBoard>(size);
  std::vector<std::unique_ptr<Wire>> wires;
  for (int rank = 0; rank < size; ++rank) wires.push_back(std::make_unique<MemoryWire>(board, rank));
  return wires;
}

}  // namespace twobw::transport
