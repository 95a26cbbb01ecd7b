// Takes what a process other than rank 0 saves to rank 0, which writes it: on a thread of its own.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "app/train/parcel.h"
#include "engine/runtime/pipeline.h"
#include "engine/runtime/snapshot.h"
#include "engine/transport/processes.h"

namespace twobw::train {

class StateSender {
 public:
  // `room`: snapshots that may be on their way.
  StateSender(std::shared_ptr<transport::Processes> processes, int room);
  // Unless finished: ends the run in all processes, for rank 0 would wait.
  ~StateSender();
  StateSender(const StateSender&) = delete;
  StateSender& operator=(const StateSender&) = delete;

  // From the workers' threads. Where there is no room it waits: none is left out, as rank 0 needs those of
  // all stages.
  void add(runtime::Snapshot snapshot);
  // After the run: these, and the word that there is no more. Returns when rank 0 has all. Throws RunError.
  void finish(std::vector<Parcel> last);

 private:
  void run();
  void send_all();

  std::shared_ptr<transport::Processes> processes_;
  const std::size_t room_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<runtime::Snapshot> waiting_;  // the first of them is on its way
  std::vector<Parcel> last_;
  bool ending_ = false, ended_ = false, sent_ = false;
  std::thread thread_;
};

// The newest weights of the workers here, of replica 0 or of all.
std::vector<Parcel> weights_here(const runtime::Pipeline& pipeline, const PipelineShape& shape,
                                 bool all_replicas);

}  // namespace twobw::train
