// How a rank comes to rank 0.
#pragma once

#include <memory>

#include "engine/control/connection.h"
#include "engine/control/rendezvous.h"

namespace twobw::control {

// Tries again until rank 0 has accepted the connection: ranks arrive in any order, and rank 0 drops one that
// a crowd at its door has kept from saying who it is. Throws RunError with rank 0's reason to refuse it, or
// when the time is over.
std::unique_ptr<Connection> join(const Meeting& meeting, const Options& options);

}  // namespace twobw::control
