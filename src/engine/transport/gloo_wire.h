// A wire over Gloo: TCP connections between all ranks.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "engine/transport/wire.h"

namespace twobw::transport {

// False in a build without Gloo's headers.
bool built_with_gloo();

struct GlooSetup {
  c10::intrusive_ptr<c10d::Store> store;  // through which the ranks find each other
  int rank = 0, size = 1;
  std::string address;  // of this machine, as other ranks reach it: a name or an IP address
  std::chrono::duration<double> timeout = std::chrono::minutes(10);  // of connecting, not of transfers
  // Called with the reason if other programs can still connect to the wire's port.
  std::function<void(const std::string& reason)> on_open_port = {};
};

// Returns when all ranks are connected and have exchanged a greeting. `name`: unique among the wires of one
// store; every wire has connections of its own, so that none waits behind another. Its thread inherits the
// affinity of the caller, which must not be bound to a worker's core. On return its port drops further
// connections. Throws RunError.
std::unique_ptr<Wire> gloo_wire(const GlooSetup& setup, const std::string& name);

}  // namespace twobw::transport
