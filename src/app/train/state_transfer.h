// The state that processes send to rank 0, which writes it: snapshots of stages during the run, and after it
// the weights of workers and their events.
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
  int replica = 0, stage = 0;  // of a snapshot, or of weights
  // Of a snapshot.
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

// Sends to rank 0, on a thread of its own.
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
  void finish(std::vector<StateMessage> last);

 private:
  void run();
  void send_all();

  std::shared_ptr<transport::Processes> processes_;
  const std::size_t room_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<runtime::Snapshot> waiting_;  // the first of them is on its way
  std::vector<StateMessage> last_;
  bool ending_ = false, ended_ = false, sent_ = false;
  std::thread thread_;
};

// Receives on rank 0, on a thread for each of the other processes.
class StateReceiver {
 public:
  using OnSnapshot = std::function<void(runtime::Snapshot)>;

  // `on_snapshot` is told of those of the stages that are elsewhere, from threads of the receiver's. Their
  // layouts follow from the model and the shape, with its split; both outlive it.
  StateReceiver(std::shared_ptr<transport::Processes> processes, const models::Model& model,
                const PipelineShape& shape, OnSnapshot on_snapshot);
  // Unless finished: ends the run in all processes, for they would wait.
  ~StateReceiver();
  StateReceiver(const StateReceiver&) = delete;
  StateReceiver& operator=(const StateReceiver&) = delete;

  // Waits until all have sent their last. Throws Cancelled where the run is aborted.
  void finish();

  // After finish(). Flat; not defined: none came.
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
