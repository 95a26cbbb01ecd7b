// Rendezvous: where rank 0 listens and how ranks connect.
//
// Under torchrun's agent store rank 0 listens at a free port, and the store carries endpoint and a random
// token to the others. Without a store both follow from the launcher: the port is the world's, and the token
// is TWOBW_JOB_TOKEN or derived from the job's id.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/launch/world.h"
#include "engine/control/control.h"
#include "engine/control/socket.h"

namespace twobw::control {

struct Rendezvous {
  Endpoint endpoint;  // where rank 0 listens and the others connect
  std::string token;  // from 16 to 256 bytes
  int rank = 0;
  int size = 1;
  std::string build;  // the same on all ranks
};

// Returns when all ranks have joined. Throws RunError: on rank 0 with the ranks that did not join in time, on
// others if rank 0 was not reached, on all if a rank joins twice or has another build or size.
std::unique_ptr<Control> connect(const Rendezvous& rendezvous, const Options& options = {});
// For rank 0, if the port must be known before the others connect; ignores `rendezvous.endpoint`.
std::unique_ptr<Control> connect(const Rendezvous& rendezvous, const Options& options, Listener listener);

// Rendezvous without a store: at the loopback if all processes are on one host, else at MASTER_ADDR. Rank 0
// replaces the address by the one at which it listens. `token`: the value of TWOBW_JOB_TOKEN; throws
// InputError if it is too short or too long.
Rendezvous rendezvous_of(const launch::World& world, const std::optional<std::string>& token,
                         std::string build);

// Not a secret from those who know the job's id.
std::string derived_token(const std::string& job);
std::string random_token();

}  // namespace twobw::control
