// Tensors between processes, each of them a rank. Links, and sums over replicas, are built on it.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <vector>

namespace twobw::transport {

// One that was posted. Dropped before it is done, the wire's tag is of no use any more.
class Transfer {
 public:
  virtual ~Transfer() = default;
  // Once, by one thread. Throws Cancelled once aborted, RunError on a broken connection.
  virtual void wait() = 0;
};

class Wire {
 public:
  virtual ~Wire() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Both are posted and return at once; the tensor is contiguous, on the CPU, of known shape at both ends,
  // and must stay as it is until wait() has returned. Messages of one tag arrive in the order of their sends.
  // A send may be done only when it is received. From any thread; both throw like wait().
  virtual std::shared_ptr<Transfer> send(int to, int tag, const at::Tensor& tensor) = 0;
  virtual std::shared_ptr<Transfer> receive(int from, int tag, const at::Tensor& into) = 0;
  virtual void abort() = 0;  // ends all waits of this rank, also those to come; from any thread
};

// Threads as ranks, for tests.
std::vector<std::unique_ptr<Wire>> wires_in_memory(int size);

}  // namespace twobw::transport
