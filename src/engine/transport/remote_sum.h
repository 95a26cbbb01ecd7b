// All-reduce over the replicas of a stage in several processes, one sum after another on a helper thread.
//
// Every process adds a part of the buffers: it receives that part from all replicas, adds in the order of the
// replicas, as a sum within one process does, and sends the sum to the others (a range with an owner is added
// by the owner's process and stays there). Rounds bound the memory: one is received while the one before is
// added and distributed.
//
// On GPUs an adder does the work (gpu_paths.h), after a barrier: all gradients are complete.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/threads.h"
#include "engine/transport/gpu_paths.h"
#include "engine/transport/replica_sum.h"
#include "engine/transport/sum_rounds.h"
#include "engine/transport/wire.h"

namespace twobw::transport {

// Tags of a wire that sums use, starting at their first.
constexpr int kRemoteSumTags = 2;

class RemoteSums {
 public:
  // `gpu`: for gradients on GPUs, with the same ranges. `piece`: elements that a process, or an owner, adds
  // in a round.
  explicit RemoteSums(RemoteReplicas replicas, SumRanges ranges = {}, std::shared_ptr<GpuAdder> gpu = nullptr,
                      std::int64_t piece = 1 << 20);
  ~RemoteSums();  // finishes pending sums, unless the wire is aborted

  // The sums of one update after another, over the replicas here, in their order, and elsewhere. Work after a
  // sum runs on the helper thread; workers that call advance() do not wait for it. Sums are destroyed before
  // this.
  MakeSum make();

  int first_replica() const { return first_; }

 private:
  friend class RemoteSum;
  struct Round;
  struct Job {
    std::vector<Contribution> parts;
    int part = 0;  // whose replica does the work after the sum
    std::function<void()> then;
  };

  void work();
  void do_job(const Job& job);
  void add_up(const std::vector<at::Tensor>& buffers);
  void plan(std::int64_t size);
  bool is_mine(const SumChunk& chunk) const { return chunk.rank == replicas_.wire.rank(); }
  void begin_round(const std::vector<at::Tensor>& buffers, Round& round);
  void finish_round(const std::vector<at::Tensor>& buffers, Round& round,
                    std::vector<std::shared_ptr<Transfer>>& spreading);
  void add_chunk(const std::vector<at::Tensor>& buffers, const SumRange& range, const at::Tensor& room) const;

  RemoteReplicas replicas_;
  SumRanges ranges_;
  std::shared_ptr<GpuAdder> gpu_;
  std::int64_t piece_;
  std::vector<int> processes_;    // distinct ranks
  int first_ = 0, count_ = 0;     // replicas here
  std::vector<SumRound> rounds_;  // of every sum
  std::vector<at::Tensor> room_;  // of two rounds: values of replicas elsewhere, a row each
  Inbox<Job> jobs_;
  std::thread thread_;
};

}  // namespace twobw::transport
