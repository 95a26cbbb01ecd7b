// Collectives of all stages without a flush: each stage contributes when it is ready and continues; a reader
// blocks until the result is complete, usually long after the last contribution.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "engine/device/clock.h"
#include "engine/transport/wait_hub.h"

namespace twobw::transport {

// Squared norms of gradients, in the order of the parameters: numbers, or a tensor on a GPU.
struct Norms {
  std::vector<double> values;
  at::Tensor on_gpu;  // double; complete at `ready`
  device::StreamEvent ready;
};

// All-gather of the norms of an update, in the order of the stages, so that their sum rounds the same way for
// every split. One replica of a stage contributes, and all collect. With sharded optimizer state every owner
// contributes: owner q of stage r as part r * owners + q.
class NormExchange {
 public:
  NormExchange(WaitHub& hub, int stages, int replicas = 1, int owners = 1)
      : hub_(hub), owners_(owners), parts_(stages * owners), collectors_(stages * replicas) {}

  // Called before any contribution if some workers are in other processes: the number that collect here, and
  // a callback for local contributions, on the contributor's thread.
  using OnContribution = std::function<void(std::int64_t update, int part, const Norms& norms)>;
  void share(int collectors, OnContribution on_contribution);

  // `part`: the stage, or an owner's part of it.
  void contribute(std::int64_t update, int part, Norms norms);
  // A contribution from another process. Thread-safe.
  void contribute_from_afar(std::int64_t update, int part, Norms norms);
  // Called once by every worker; the last call clears the update's entry.
  std::vector<Norms> collect(std::int64_t update);

 private:
  struct Entry {
    std::map<int, Norms> parts;
    int collected = 0;
  };
  WaitHub& hub_;
  int owners_, parts_, collectors_;
  OnContribution on_contribution_;
  std::map<std::int64_t, Entry> entries_;
};

// Decides whether batch j begins, and whether the state before it is saved. Stage 0 of replica 0 decides
// once, before the batch; the other workers await the decision. After a refused batch all later ones are
// refused.
class BatchGate {
 public:
  explicit BatchGate(WaitHub& hub) : hub_(hub) {}

  // Refuses all batches that have not begun. Thread-safe.
  void request_stop();
  // Requests a save at the next batch that begins, of the state before it. With `stop` that batch, during
  // which stages save, is the last. Thread-safe.
  void request_save(bool stop);

  // The decision of stage 0 on a batch.
  struct Decision {
    std::int64_t batch = 0;
    bool begins = true;
    bool saves = false;  // the cut before it
  };
  // Before the run, if some workers are in other processes: a callback for every decision made here, on
  // stage 0's thread.
  void share(std::function<void(const Decision&)> on_decision);
  // Applies a decision of stage 0 in another process. Called in the order of the decisions; thread-safe.
  void learn(const Decision& decision);

  // Whether the batch begins.
  bool decide(std::int64_t batch);  // stage 0
  bool await(std::int64_t batch);   // the others
  // Whether the state before the batch is saved in addition to the schedule's saves. Only after decide() or
  // await().
  bool saves_before(std::int64_t batch);

 private:
  bool begins(std::int64_t batch) const { return first_refused_ < 0 || batch < first_refused_; }

  WaitHub& hub_;
  std::function<void(const Decision&)> on_decision_;
  bool stop_requested_ = false, save_requested_ = false, stop_after_save_ = false;
  std::set<std::int64_t> saves_;
  std::int64_t decided_ = 0;         // batches decided on so far
  std::int64_t first_refused_ = -1;  // the batch that did not begin
};

}  // namespace twobw::transport
