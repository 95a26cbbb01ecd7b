#include "app/train/state_receiver.h"

#include <fmt/format.h>
#include <pthread.h>

#include "engine/transport/wait_hub.h"
#include "engine/weights/layout.h"

namespace twobw::train {

StateReceiver::StateReceiver(std::shared_ptr<transport::Processes> processes, const models::Model& model,
                             const PipelineShape& shape, OnSnapshot on_snapshot)
    : processes_(std::move(processes)), model_(model), shape_(shape), on_snapshot_(std::move(on_snapshot)) {
  for (int rank = 1; rank < processes_->size(); ++rank) threads_.emplace_back([this, rank] { run(rank); });
}

StateReceiver::~StateReceiver() {
  if (threads_.empty()) return;
  processes_->abort("process 0 has given up its run");
  for (std::thread& thread : threads_) thread.join();
}

void StateReceiver::finish() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  if (complete_ < processes_->size() - 1) throw transport::Cancelled();
}

void StateReceiver::run(int from) {
  pthread_setname_np(pthread_self(), fmt::format("state of {}", from).substr(0, 15).c_str());
  try {
    receive_all(from);
    std::lock_guard lock(mutex_);
    ++complete_;
  } catch (const transport::Cancelled&) {
  } catch (const std::exception& error) {
    processes_->abort(error.what());
  }
}

void StateReceiver::receive_all(int from) {
  transport::Wire& wire = *processes_->wires().state;
  while (true) {
    Parcel parcel = receive_parcel(wire, from);
    if (parcel.kind == Parcel::Kind::Last) return;
    take(std::move(parcel));
  }
}

void StateReceiver::take(Parcel parcel) {
  if (parcel.kind == Parcel::Kind::Snapshot) {
    const int first = shape_.first_layer(parcel.stage), last = shape_.last_layer(parcel.stage);
    on_snapshot_({.update = parcel.update,
                  .stage = parcel.stage,
                  .layout = weights::Layout(model_.layers, first, last),
                  .part = parcel.part,
                  .buffers = std::move(parcel.buffers),
                  .counters = parcel.counters,
                  .await = {}});
    return;
  }
  std::lock_guard lock(mutex_);
  if (parcel.kind == Parcel::Kind::Weights) {
    weights_[{parcel.replica, parcel.stage}] = parcel.buffers.front().second;
  } else {
    const std::vector<telemetry::Event> events = events_of(parcel);
    events_.insert(events_.end(), events.begin(), events.end());
  }
}

at::Tensor StateReceiver::weights(int stage, int replica) const {
  const auto found = weights_.find({replica, stage});
  return found == weights_.end() ? at::Tensor() : found->second;
}

}  // namespace twobw::train
