// torchrun's agent has a store. Rank 0 says there where it listens, and the token of the run; the others read
// it.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>

#include "control/address.h"
#include "launch/world.h"

namespace twobw::rendezvous {

struct MeetingPoint {
  control::Endpoint endpoint;
  std::string token;
};

// Joins the store as a client. Throws RunError where the agent does not answer in time.
c10::intrusive_ptr<c10d::Store> connect_to_agent(const launch::World& world, double seconds);

// Under keys of the job (launch/world.h), so that no attempt before a restart is read.
void publish(c10d::Store& store, const std::string& job, const MeetingPoint& point);
// Waits for it within the store's own time; throws RunError.
MeetingPoint find_meeting_point(c10d::Store& store, const std::string& job);

}  // namespace twobw::rendezvous
