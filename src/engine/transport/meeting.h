// Where several processes wait for each other.
#pragma once

#include <vector>

#include "engine/transport/wire.h"

namespace twobw::transport {

// Returns when all of these ranks, this process's among them, have come here as often. Throws like a
// transfer.
void meet(Wire& wire, int tag, const std::vector<int>& ranks);

}  // namespace twobw::transport
