// Key-value stores by which processes find each other: torchrun's, in which rank 0 publishes where it
// listens, and one over the control channel, for Gloo.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>
#include <string>
#include <vector>

#include "core/launch/world.h"
#include "engine/control/control.h"
#include "engine/control/socket.h"

namespace twobw::rendezvous {

struct RendezvousPoint {
  control::Endpoint endpoint;
  std::string token;
};

using AgentStore = c10::intrusive_ptr<c10d::Store>;

// Joins torchrun's store as a client. Like the two below it throws RunError if the store has not answered
// within `seconds`.
AgentStore connect_to_agent(const launch::World& world, double seconds);

// Publishes under keys of the job (core/launch/world.h): an attempt before a restart has others.
void publish(const AgentStore& store, const std::string& job, const RendezvousPoint& point, double seconds);
// Blocks until it is published.
RendezvousPoint find_rendezvous_point(const AgentStore& store, const std::string& job, double seconds);

// The store through which Gloo's processes connect; it opens no further port. A value is broadcast to all
// ranks and kept by all; readers wait for it locally.
class ControlStore final : public c10d::Store {
 public:
  // Before control.start(): handles Topic::Store. The control outlives the store's use.
  ControlStore(control::Control& control, std::chrono::milliseconds timeout);

  c10::intrusive_ptr<Store> clone() override;
  using Store::set;
  // Each key is set once, by one process.
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  // All that wait throw RunError: with the failure after an abort, with a missing key after the timeout.
  std::vector<std::uint8_t> get(const std::string& key) override;
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;
  bool check(const std::vector<std::string>& keys) override;

  // Throw RunError: Gloo does not use them.
  std::int64_t add(const std::string& key, std::int64_t value) override;
  bool deleteKey(const std::string& key) override;
  std::int64_t getNumKeys() override;

 private:
  struct Values;
  ControlStore(control::Control& control, std::chrono::milliseconds timeout, std::shared_ptr<Values> values);

  control::Control& control_;
  std::shared_ptr<Values> values_;
};

}  // namespace twobw::rendezvous
