// What the workers of one process have to do with those of others besides tensors: norms, decisions on
// batches, reports, the end of the run and its failure. Between them and the process's own groups.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/runtime/placement.h"
#include "engine/runtime/worker.h"
#include "engine/transport/group.h"
#include "engine/transport/processes.h"

namespace twobw::runtime {

class NormsOutbox;

class Exchange {
 public:
  using OnAbort = std::function<void(const control::Failure& failure)>;

  // Before any worker runs; all that is passed by reference outlives it. `observer` is told of the reports of
  // all processes where this one is rank 0. `owners`: as of `norms`.
  Exchange(transport::Processes& processes, const Placement& placement, transport::Hub& hub,
           transport::StageGroup& norms, int owners, transport::BatchGate& gate, const Observer& observer,
           OnAbort on_abort);
  ~Exchange();

  // The pipeline's, the same in all processes (engine/transport/processes.h).
  int number() const { return number_; }
  const Placement& placement() const { return placement_; }
  transport::Processes& processes() const { return processes_; }

  // For the workers here.
  Observer observer() const;

  // From any thread; what stage 0 of replica 0 is asked for, wherever it is.
  void request_stop();
  void request_save(bool stop);

  // Tells the others that the workers here have ended, and waits until all have: then all their reports are
  // in, and all that they send is on its way.
  void finish();

 private:
  using Topic = transport::Processes::Topic;

  void handle(Topic topic, int from, std::string_view body);
  void handle_gate(std::string_view body);
  void send_norms(std::int64_t update, int part, const transport::Norms& norms);
  void send_values(std::int64_t update, int part, const std::vector<double>& values);
  void send_decision(const transport::BatchGate::Decision& decision);
  bool decides() const { return placement_.rank() == 0; }

  transport::Processes& processes_;
  Placement placement_;
  transport::Hub& hub_;
  transport::StageGroup& norms_;
  int owners_;
  transport::BatchGate& gate_;
  const Observer& observer_;
  std::set<int> ended_;  // ranks whose workers have; under the hub's lock
  int number_ = 0;
  std::once_flag outbox_made_;
  std::unique_ptr<NormsOutbox> outbox_;  // for norms on GPUs
};

// "  process 1: last heard of 0.2 s ago", a line each.
std::string describe_others(const transport::Processes& processes);

}  // namespace twobw::runtime
