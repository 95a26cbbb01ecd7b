// Sends state to rank 0, which writes it: snapshots of stages during the run; weights and events after it.
#pragma once

#include <ATen/ATen.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/telemetry/event.h"
#include "engine/models/model.h"
#include "engine/optim/state.h"
#include "engine/runtime/pipeline.h"
#include "engine/runtime/snapshot.h"
#include "engine/transport/processes.h"
#include "engine/weights/layout.h"

namespace twobw::train {

// Travels over the wire `state`: a header, then its tensors.
struct StateMessage {
  enum class Kind : std::uint8_t { Snapshot, Weights, Events, Last } kind = Kind::Last;
  int replica = 0, stage = 0;  // of a snapshot or of weights
  // Snapshots only.
  std::int64_t update = 0;
  weights::Range part = {};
  optim::Counters counters;
  // Flat, on the CPU.
  std::vector<std::pair<std::string, at::Tensor>> buffers;
};

// The newest weights of the workers here, of replica 0 or of all.
std::vector<StateMessage> weights_here(const runtime::Pipeline& pipeline, const PipelineShape& shape,
                                       bool all_replicas);
StateMessage events_message(const std::vector<telemetry::Event>& events);

// Sends to rank 0, on its own thread.
class StateSender {
 public:
  // `room`: snapshots queued at most.
  StateSender(std::shared_ptr<transport::Processes> processes, int room);
  // Unless finished, aborts the run in all processes: rank 0 would wait.
  ~StateSender();
  StateSender(const StateSender&) = delete;
  StateSender& operator=(const StateSender&) = delete;

  // From the workers' threads. Blocks while the queue is full: rank 0 needs the snapshots of all stages.
  void add(runtime::Snapshot snapshot);
  // After the run: sends these as the last messages. Blocks until rank 0 has all. Throws Cancelled.
  void finish(std::vector<StateMessage> last);

 private:
  void run();
  void send_all();

  std::shared_ptr<transport::Processes> processes_;
  const std::size_t room_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<runtime::Snapshot> waiting_;  // the first is being sent
  std::vector<StateMessage> last_;
  bool ending_ = false, ended_ = false, sent_ = false;
  std::thread thread_;
};

// Receives on rank 0, on one thread per other process.
class StateReceiver {
 public:
  using OnSnapshot = std::function<void(runtime::Snapshot)>;

  // `on_snapshot` gets the snapshots of remote stages, on the receiver's threads. `shape` has the split.
  // `model` and `shape` must outlive the receiver.
  StateReceiver(std::shared_ptr<transport::Processes> processes, const models::Model& model,
                const PipelineShape& shape, OnSnapshot on_snapshot);
  // Unless finished, aborts the run in all processes: they would wait.
  ~StateReceiver();
  StateReceiver(const StateReceiver&) = delete;
  StateReceiver& operator=(const StateReceiver&) = delete;

  // Blocks until all have sent their last message. Throws Cancelled if the run is aborted.
  void finish();

  // After finish(). Flat weights; undefined if none arrived.
  at::Tensor weights(int stage, int replica = 0) const;
  const std::vector<telemetry::Event>& events() const { return events_; }

 private:
  void run(int from);
  void receive_all(int from);
  void take(StateMessage message);

  std::shared_ptr<transport::Processes> processes_;
  const models::Model& model_;
  const PipelineShape& shape_;
  OnSnapshot on_snapshot_;
  std::mutex mutex_;
  std::map<std::pair<int, int>, at::Tensor> weights_;  // by replica and stage
  std::vector<telemetry::Event> events_;
  int complete_ = 0;  // processes
  std::vector<std::thread> threads_;
};

}  // namespace twobw::train
