// Wires carry tensors between processes (ranks). Links and sums over replicas are built on them.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <vector>

namespace twobw::transport {

// A posted send or receive. If destroyed before completion, its tag must not be reused.
class Transfer {
 public:
  virtual ~Transfer() = default;
  // Called once, by one thread. Throws Cancelled after an abort, RunError on a broken connection.
  virtual void wait() = 0;
};

class Wire {
 public:
  virtual ~Wire() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Both post a transfer and return at once. The tensor is contiguous, on the CPU, of a shape known at both
  // ends, and must not change until wait() has returned. Messages of one tag arrive in the order of their
  // sends. A send may complete only when it is received. Thread-safe; both throw like wait().
  virtual std::shared_ptr<Transfer> send(int to, int tag, const at::Tensor& tensor) = 0;
  virtual std::shared_ptr<Transfer> receive(int from, int tag, const at::Tensor& into) = 0;
  virtual void abort() = 0;  // ends all waits of this rank, present and future; thread-safe
};

// Barrier over `ranks` (must include this rank). Throws like a transfer.
inline void barrier(Wire& wire, int tag, const std::vector<int>& ranks) {
  const at::Tensor said = at::zeros({1}, at::kByte), heard = at::zeros({std::ssize(ranks)}, at::kByte);
  std::vector<std::shared_ptr<Transfer>> transfers;
  for (int i = 0; i < std::ssize(ranks); ++i) {
    if (ranks[i] != wire.rank()) transfers.push_back(wire.receive(ranks[i], tag, heard.narrow(0, i, 1)));
  }
  for (const int rank : ranks) {
    if (rank != wire.rank()) transfers.push_back(wire.send(rank, tag, said));
  }
  for (const auto& transfer : transfers) transfer->wait();
}

}  // namespace twobw::transport
