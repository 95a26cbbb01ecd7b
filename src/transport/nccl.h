// NCCL: sets of GPUs that exchange tensors without the host. A communicator is one GPU's place in such a set,
// its rank.
#pragma once

#include <nccl.h>

#include <atomic>
#include <memory>
#include <vector>

namespace twobw::transport {

// Throws RunError that says what failed, where `result` is an error.
void check_nccl(ncclResult_t result, const char* what);

// Calls that are queued as one: a send and a receive that need each other, several sums.
template <typename Calls>
void as_one(Calls calls) {
  check_nccl(ncclGroupStart(), "ncclGroupStart");
  try {
    calls();
  } catch (...) {
    ncclGroupEnd();  // or the thread's next call would still belong to it
    throw;
  }
  check_nccl(ncclGroupEnd(), "ncclGroupEnd");
}

class Communicator {
 public:
  // What the ranks of a set have in common: one makes it, all join by it.
  static ncclUniqueId make_id();
  // Makes the calling thread's GPU a rank. Returns when all have joined.
  Communicator(const ncclUniqueId& id, int ranks, int rank);
  // Makes a set of some of this process's GPUs, each once; all at once, by one thread.
  static std::vector<std::unique_ptr<Communicator>> join(const std::vector<int>& gpus);

  ~Communicator();  // not before what was queued has ended, or was aborted
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  ncclComm_t get() const;  // throws RunError once aborted
  int rank() const;
  int gpu() const;

  // Ends what waits on the GPU for ranks that will not come. From any thread.
  void abort();

 private:
  explicit Communicator(ncclComm_t communicator) : communicator_(communicator) {}

  std::atomic<ncclComm_t> communicator_ = nullptr;
};

}  // namespace twobw::transport
