// Connects the processes of a run: the control channel first, then their agreement, then wires for tensors.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/base/error.h"
#include "core/launch/world.h"
#include "engine/control/agreement.h"
#include "engine/transport/processes.h"

namespace twobw::rendezvous {

// Returns when all processes have joined, agree on the facts and are connected; null if this process is
// alone. Called before any thread is bound to a core, because threads of the wires inherit the caller's
// affinity. Throws InputError if facts differ or this program was built without Gloo, RunError if a process
// does not join in time.
std::shared_ptr<transport::Processes> join(const launch::World& world, const NetworkConfig& network,
                                           const control::Facts& facts);

// Reports a configuration error to the other processes, which otherwise would wait for this one: all end with
// it. Returns when they have it, or after kBroadcastWithin seconds: some may never join. Throws nothing.
inline constexpr double kBroadcastWithin = 20;
void broadcast_config_error(const launch::World& world, const InputError& error);

// Returns `read()`; broadcasts and rethrows its InputError.
template <typename Read>
auto read_or_broadcast_error(const launch::World& world, Read read) {
  try {
    return read();
  } catch (const InputError& error) {
    broadcast_config_error(world, error);
    throw;
  }
}

// Returns `work()` once all processes have left the run. A failure here ends it in all of them. `processes`
// may be null: there is only this one.
template <typename Work>
auto run_and_leave(transport::Processes* processes, Work work) {
  return transport::abort_on_failure(processes, [&] {
    auto result = work();
    if (processes) processes->control().leave();
    return result;
  });
}

// The address at which other processes reach this one. Retries an unknown name of process 0's host for
// network.join_timeout seconds. Throws InputError if the address is ambiguous, RunError if the name stays
// unknown.
std::string own_address(const launch::World& world, const NetworkConfig& network);

// Build id: checksum of the executable.
std::string build_id();

struct Interface {
  std::string name;     // "eth0"
  std::string address;  // in numbers
  bool loopback = false;
};

// Network interfaces of this host that are up, IPv4 first, without link-local addresses.
std::vector<Interface> interfaces();

// The address of the interface named by `text`, a name or an address. Throws InputError that lists the names.
std::string address_of_interface(const std::string& text, const std::vector<Interface>& all);

// Whether the address reaches this host only.
bool is_loopback(const std::string& address);

}  // namespace twobw::rendezvous
