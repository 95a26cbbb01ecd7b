// Sums over the replicas of a stage that live in several processes, one after another on a thread of its own.
//
// Every process answers for a part of the buffers: it receives that part of all replicas, adds them in the
// order of the replicas, as a sum within one process does, and sends the sum to the others; where it has an
// owner, that one's process, and the sum stays there. Rounds keep the memory that it takes small: one is
// received while the one before is added and handed out.
//
// On GPUs an adder does that (gpu_paths.h), when all processes have said that their gradients are complete.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/inbox.h"
#include "engine/transport/gpu_paths.h"
#include "engine/transport/on_failure.h"
#include "engine/transport/replica_sum.h"
#include "engine/transport/sum_rounds.h"
#include "engine/transport/wire.h"

namespace twobw::transport {

// Tags of a wire that sums take, from their first on.
constexpr int kRemoteSumTags = 2;

struct RemoteSumsSetup {
  Wire& wire;
  int tag = 0;             // the first, the same in all processes
  std::vector<int> ranks;  // of each replica, rising
  std::string name;        // of the thread
  OnFailure on_failure;
  std::shared_ptr<GpuAdder> gpu = nullptr;  // of gradients on GPUs, by the same ranges
  std::int64_t piece = 1 << 20;             // elements that a process, or an owner, adds in a round
  SumRanges ranges = {};
};

class RemoteSums {
 public:
  explicit RemoteSums(RemoteSumsSetup setup);
  ~RemoteSums();  // waits for the sums that were begun, unless the wire is aborted
  RemoteSums(const RemoteSums&) = delete;
  RemoteSums& operator=(const RemoteSums&) = delete;

  // Makes the sum of one update after another: of the replicas of this process, in their order, and of the
  // others. What follows from a sum is done on the thread here; nobody who helps waits for it. They are gone
  // before this is.
  MakeSum make();

  int first_replica() const { return first_; }

 private:
  friend class RemoteSum;
  struct Round;
  struct Job {
    std::vector<Contribution> parts;
    int helper = 0;  // of the parts: whose replica does what follows
    std::function<void()> afterwards;
  };

  void work();
  void work_off(const Job& job);
  void add_up(const std::vector<at::Tensor>& buffers);
  void plan(std::int64_t size);
  bool is_mine(const SumChunk& chunk) const { return chunk.rank == setup_.wire.rank(); }
  void begin_round(const std::vector<at::Tensor>& buffers, Round& round);
  void finish_round(const std::vector<at::Tensor>& buffers, Round& round,
                    std::vector<std::shared_ptr<Transfer>>& spreading);
  void add_chunk(const std::vector<at::Tensor>& buffers, const SumRange& range, const at::Tensor& room) const;

  RemoteSumsSetup setup_;
  std::vector<int> processes_;    // their ranks, each once
  int first_ = 0, count_ = 0;     // replicas here
  std::vector<SumRound> rounds_;  // of every sum
  std::vector<at::Tensor> room_;  // for two rounds: the others' part of this process's, a row a replica
  Inbox<Job> jobs_;
  std::thread thread_;
};

}  // namespace twobw::transport
