#include "app/train/state_transfer.h"

#include <fmt/format.h>
#include <pthread.h>

#include <cstring>
#include <string_view>
#include <type_traits>

#include "core/base/codec.h"
#include "core/base/error.h"
#include "engine/transport/wait_hub.h"

namespace twobw::train {
namespace {

constexpr int kTag = 1;

at::Tensor bytes_tensor(const void* bytes, std::size_t count) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(count)}, at::kByte);
  if (count > 0) std::memcpy(tensor.mutable_data_ptr(), bytes, count);
  return tensor;
}

struct BufferHeader {
  std::string name;
  std::int64_t elements = 0;
  at::ScalarType type = at::kFloat;

  static void fields(auto& self, auto&& visit) { visit(self.name, self.elements, self.type); }
};

std::string header_of(const StateMessage& message) {
  std::vector<BufferHeader> buffers;
  for (const auto& [name, tensor] : message.buffers)
    buffers.push_back({.name = name, .elements = tensor.numel(), .type = tensor.scalar_type()});
  return to_bytes(message.kind, message.replica, message.stage, message.update, message.part,
                  message.counters, buffers);
}

// With room for the tensors.
StateMessage message_of(std::string_view header) {
  StateMessage message;
  std::vector<BufferHeader> buffers;
  Decoder decoder(header);
  decoder(message.kind, message.replica, message.stage, message.update, message.part, message.counters,
          buffers);
  decoder.finish();
  for (const BufferHeader& buffer : buffers)
    message.buffers.emplace_back(buffer.name, at::empty({buffer.elements}, buffer.type));
  return message;
}

// Waits until it is received. Throws like Wire.
void send_message(transport::Wire& wire, int to, const StateMessage& message) {
  const std::string header = header_of(message);
  std::vector<at::Tensor> parts = {at::full({1}, static_cast<std::int64_t>(header.size()), at::kLong),
                                   bytes_tensor(header.data(), header.size())};
  for (const auto& [name, tensor] : message.buffers) {
    TWOBW_ASSERT(tensor.is_cpu() && tensor.is_contiguous(), "{} is not whole, or not on the CPU", name);
    if (tensor.numel() > 0) parts.push_back(tensor);
  }
  std::vector<std::shared_ptr<transport::Transfer>> transfers;
  for (const at::Tensor& part : parts) transfers.push_back(wire.send(to, kTag, part));
  for (const auto& transfer : transfers) transfer->wait();
}

// Waits for the next.
StateMessage receive_message(transport::Wire& wire, int from) {
  const at::Tensor size = at::zeros({1}, at::kLong);
  wire.receive(from, kTag, size)->wait();
  const at::Tensor header = at::empty({size.item<std::int64_t>()}, at::kByte);
  wire.receive(from, kTag, header)->wait();
  StateMessage message = message_of(
      {static_cast<const char*>(header.const_data_ptr()), static_cast<std::size_t>(header.numel())});
  std::vector<std::shared_ptr<transport::Transfer>> transfers;
  for (const auto& [name, tensor] : message.buffers) {
    if (tensor.numel() > 0) transfers.push_back(wire.receive(from, kTag, tensor));
  }
  for (const auto& transfer : transfers) transfer->wait();
  return message;
}

StateMessage packed(runtime::Snapshot& snapshot) {
  if (snapshot.await) snapshot.await(snapshot);
  return {.kind = StateMessage::Kind::Snapshot,
          .stage = snapshot.stage,
          .update = snapshot.update,
          .part = snapshot.part,
          .counters = snapshot.counters,
          .buffers = snapshot.buffers};
}

std::vector<telemetry::Event> events_of(const StateMessage& message) {
  const at::Tensor& bytes = message.buffers.front().second;
  std::vector<telemetry::Event> events(bytes.nbytes() / sizeof(telemetry::Event));
  if (!events.empty()) std::memcpy(events.data(), bytes.const_data_ptr(), bytes.nbytes());
  return events;
}

}  // namespace

StateMessage events_message(const std::vector<telemetry::Event>& events) {
  static_assert(std::is_trivially_copyable_v<telemetry::Event>);
  StateMessage message{.kind = StateMessage::Kind::Events};
  message.buffers.emplace_back("events",
                               bytes_tensor(events.data(), events.size() * sizeof(telemetry::Event)));
  return message;
}

std::vector<StateMessage> weights_here(const runtime::Pipeline& pipeline, const PipelineShape& shape,
                                       bool all_replicas) {
  std::vector<StateMessage> messages;
  for (int replica = 0; replica < (all_replicas ? shape.replicas : 1); ++replica) {
    for (int stage = 0; stage < shape.stages; ++stage) {
      if (!pipeline.is_here(stage, replica)) continue;
      StateMessage message{.kind = StateMessage::Kind::Weights, .replica = replica, .stage = stage};
      message.buffers.emplace_back("weights", pipeline.stage(stage, replica).newest_weights().contiguous());
      messages.push_back(std::move(message));
    }
  }
  return messages;
}

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

void StateSender::finish(std::vector<StateMessage> last) {
  {
    std::lock_guard lock(mutex_);
    last_ = std::move(last);
    last_.push_back({.kind = StateMessage::Kind::Last});
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
    send_message(wire, 0, packed(snapshot));
    lock.lock();
    waiting_.pop_front();
    changed_.notify_all();
  }
  const std::vector<StateMessage> last = std::exchange(last_, {});
  lock.unlock();
  for (const StateMessage& message : last) send_message(wire, 0, message);
}

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
    StateMessage message = receive_message(wire, from);
    if (message.kind == StateMessage::Kind::Last) return;
    take(std::move(message));
  }
}

void StateReceiver::take(StateMessage message) {
  if (message.kind == StateMessage::Kind::Snapshot) {
    const int first = shape_.first_layer(message.stage), last = shape_.last_layer(message.stage);
    on_snapshot_({.update = message.update,
                  .stage = message.stage,
                  .layout = weights::Layout(model_.layers, first, last),
                  .part = message.part,
                  .buffers = std::move(message.buffers),
                  .counters = message.counters,
                  .await = {}});
    return;
  }
  std::lock_guard lock(mutex_);
  if (message.kind == StateMessage::Kind::Weights) {
    weights_[{message.replica, message.stage}] = message.buffers.front().second;
  } else {
    const std::vector<telemetry::Event> events = events_of(message);
    events_.insert(events_.end(), events.begin(), events.end());
  }
}

at::Tensor StateReceiver::weights(int stage, int replica) const {
  const auto found = weights_.find({replica, stage});
  return found == weights_.end() ? at::Tensor() : found->second;
}

}  // namespace twobw::train
