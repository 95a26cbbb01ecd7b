#include "app/train/state_sender.h"

#include <pthread.h>

#include <utility>

#include "core/base/error.h"
#include "engine/transport/wait_hub.h"

namespace twobw::train {
namespace {

Parcel packed(runtime::Snapshot& snapshot) {
  if (snapshot.await) snapshot.await(snapshot);
  return {.kind = Parcel::Kind::Snapshot,
          .stage = snapshot.stage,
          .update = snapshot.update,
          .part = snapshot.part,
          .counters = snapshot.counters,
          .buffers = snapshot.buffers};
}

}  // namespace

StateSender::StateSender(std::shared_ptr<transport::Processes> processes, int room)
    : processes_(std::move(processes)), room_(static_cast<std::size_t>(room)), thread_([this] { run(); }) {}

StateSender::~StateSender() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (!thread_.joinable()) return;
  processes_->abort(fmt::format("process {} has given up its run", processes_->rank()));
  thread_.join();
}

void StateSender::add(runtime::Snapshot snapshot) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return waiting_.size() < room_ || ended_; });
  if (ended_) return;  // the run is over
  waiting_.push_back(std::move(snapshot));
  changed_.notify_all();
}

void StateSender::finish(std::vector<Parcel> last) {
  {
    std::lock_guard lock(mutex_);
    last_ = std::move(last);
    last_.push_back({.kind = Parcel::Kind::Last});
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (!sent_) throw transport::Cancelled();
}

void StateSender::run() {
  pthread_setname_np(pthread_self(), "state");
  try {
    send_all();
    sent_ = true;
  } catch (const transport::Cancelled&) {
  } catch (const std::exception& error) {
    processes_->abort(error.what());
  }
  std::lock_guard lock(mutex_);
  ended_ = true;
  waiting_.clear();
  changed_.notify_all();
}

void StateSender::send_all() {
  transport::Wire& wire = *processes_->wires().state;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !waiting_.empty() || ending_; });
    if (waiting_.empty()) break;
    runtime::Snapshot& snapshot = waiting_.front();
    lock.unlock();
    send_parcel(wire, 0, packed(snapshot));
    lock.lock();
    waiting_.pop_front();
    changed_.notify_all();
  }
  const std::vector<Parcel> last = std::exchange(last_, {});
  lock.unlock();
  for (const Parcel& parcel : last) send_parcel(wire, 0, parcel);
}

std::vector<Parcel> weights_here(const runtime::Pipeline& pipeline, const PipelineShape& shape,
                                 bool all_replicas) {
  std::vector<Parcel> parcels;
  for (int replica = 0; replica < (all_replicas ? shape.replicas : 1); ++replica) {
    for (int stage = 0; stage < shape.stages; ++stage) {
      if (!pipeline.is_here(stage, replica)) continue;
      Parcel parcel{.kind = Parcel::Kind::Weights, .replica = replica, .stage = stage};
      parcel.buffers.emplace_back("weights", pipeline.stage(stage, replica).newest_weights().contiguous());
      parcels.push_back(std::move(parcel));
    }
  }
  return parcels;
}

}  // namespace twobw::train
