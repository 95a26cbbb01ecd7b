// How the processes of a run come together: control first, then what they must agree on, then wires for
// tensors.
#pragma once

#include <memory>
#include <string>

#include "base/config.h"
#include "control/agreement.h"
#include "launch/world.h"
#include "transport/processes.h"

namespace twobw::rendezvous {

// Returns when all are there, agree on the facts and are connected; null: this process is alone. To be called
// before any thread is bound to a core: those of the wires run where the caller's may. Throws InputError
// where facts differ or this program was built without Gloo, RunError where a process does not come in time.
std::shared_ptr<transport::Processes> join(const launch::World& world, const NetworkConfig& network,
                                           const control::Facts& facts);

// The address at which other processes reach this one. Throws InputError where that cannot be told.
std::string own_address(const launch::World& world, const NetworkConfig& network);

// The same in processes of one program, and in no others: of the bytes of its file.
std::string build_id();

}  // namespace twobw::rendezvous
