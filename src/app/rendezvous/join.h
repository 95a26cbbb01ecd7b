// How the processes of a run come together: control first, then what they must agree on, then wires for
// tensors.
#pragma once

#include <memory>
#include <string>

#include "core/base/config.h"
#include "core/base/error.h"
#include "core/launch/world.h"
#include "engine/control/agreement.h"
#include "engine/transport/processes.h"

namespace twobw::rendezvous {

// Returns when all are there, agree on the facts and are connected; null: this process is alone. To be called
// before any thread is bound to a core: those of the wires run where the caller's may. Throws InputError
// where facts differ or this program was built without Gloo, RunError where a process does not come in time.
std::shared_ptr<transport::Processes> join(const launch::World& world, const NetworkConfig& network,
                                           const control::Facts& facts);

// A process that cannot read its configuration joins the others only to say so: all of them then end with
// wrong input, soon, where they would wait for this one. `mistake` is what they are told. Returns when that
// is done, or after kTellWithin seconds, for not all may be there. Throws nothing.
inline constexpr double kTellWithin = 20;
void tell_mistake(const launch::World& world, const InputError& mistake);

// What `read` gives; a mistake that it finds is told to the others, and thrown.
template <typename Read>
auto read_or_tell(const launch::World& world, Read read) {
  try {
    return read();
  } catch (const InputError& mistake) {
    tell_mistake(world, mistake);
    throw;
  }
}

// The address at which other processes reach this one; the name of the host of process 0 may become known
// within network.arrival. Throws InputError where it cannot be told, RunError where the name stays unknown.
std::string own_address(const launch::World& world, const NetworkConfig& network);

// The same in processes of one program, and in no others: of the bytes of its file.
std::string build_id();

}  // namespace twobw::rendezvous
