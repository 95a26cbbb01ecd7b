// Messages between the workers of different processes other than tensors: norms, decisions on batches,
// reports, end and failure of the run. Connects the process's own groups with the others'.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/base/threads.h"
#include "engine/runtime/rank_map.h"
#include "engine/runtime/worker.h"
#include "engine/transport/group.h"
#include "engine/transport/processes.h"
#include "engine/transport/wait_hub.h"

namespace twobw::runtime {

class Exchange {
 public:
  using OnAbort = std::function<void(const control::Failure& failure)>;

  // Before any worker runs; references must outlive it. On rank 0 `observer` receives the reports of all
  // processes. `owners`: as for `norms`.
  Exchange(transport::Processes& processes, const RankMap& rank_map, transport::WaitHub& hub,
           transport::NormExchange& norms, int owners, transport::BatchGate& gate, const Observer& observer,
           OnAbort on_abort);
  ~Exchange();

  // The pipeline's number, the same in all processes (engine/transport/processes.h).
  int number() const { return number_; }
  const RankMap& rank_map() const { return rank_map_; }
  transport::Processes& processes() const { return processes_; }

  // For the workers here.
  Observer observer() const;

  // Forwarded to stage 0 of replica 0. Thread-safe.
  void request_stop();
  void request_save(bool stop);

  // Barrier at the end of the workers of all processes; afterwards all reports have arrived.
  void finish();

 private:
  using Topic = transport::Processes::Topic;
  struct OutgoingNorms {
    std::int64_t update = 0;
    int part = 0;  // as of transport::NormExchange
    transport::Norms norms;
  };

  void handle(Topic topic, int from, std::string_view body);
  void handle_gate(std::string_view body);
  void send_norms(std::int64_t update, int part, const transport::Norms& norms);
  void send_values(std::int64_t update, int part, const std::vector<double>& values);
  void send_decision(const transport::BatchGate::Decision& decision);
  bool decides() const { return rank_map_.rank() == 0; }

  transport::Processes& processes_;
  RankMap rank_map_;
  transport::WaitHub& hub_;
  transport::NormExchange& norms_;
  int owners_;
  transport::BatchGate& gate_;
  const Observer& observer_;
  std::set<int> ended_;  // ranks whose workers have ended; under the hub's lock
  int number_ = 0;
  Inbox<OutgoingNorms> outbox_;  // norms on a GPU
  std::once_flag sender_started_;
  std::thread sender_;
};

// One line for each process: "  process 1: last heard of 0.2 s ago".
std::string describe_others(const transport::Processes& processes);

}  // namespace twobw::runtime
