// torchrun's agent has a store. Rank 0 says there where it listens, and the token of the run; the others read
// it.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>

#include "core/launch/world.h"
#include "engine/control/address.h"

namespace twobw::rendezvous {

struct MeetingPoint {
  control::Endpoint endpoint;
  std::string token;
};

using AgentStore = c10::intrusive_ptr<c10d::Store>;

// All functions throw RunError if the store has not answered within `seconds`.

// Joins the store as a client.
AgentStore connect_to_agent(const launch::World& world, double seconds);

// Under keys of the job (core/launch/world.h), so that no attempt before a restart is read.
void publish(const AgentStore& store, const std::string& job, const MeetingPoint& point, double seconds);
// Waits until it is published.
MeetingPoint find_meeting_point(const AgentStore& store, const std::string& job, double seconds);

}  // namespace twobw::rendezvous
