// What the other processes send to rank 0 (app/train/parcel.h): a thread for each of them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "app/train/parcel.h"
#include "engine/models/model.h"
#include "engine/runtime/snapshot.h"
#include "engine/transport/processes.h"

namespace twobw::train {

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
  void take(Parcel parcel);

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
