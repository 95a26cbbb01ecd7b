// Where the processes of a run meet, and their meeting.
//
// Under torchrun's agent store rank 0 listens at a free port, and the store carries endpoint and a random
// token to the others. Without a store both follow from the launcher: the port is the world's, and the token
// is TWOBW_JOB_TOKEN or else derived from the job's id.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/launch/world.h"
#include "engine/control/control.h"
#include "engine/control/options.h"
#include "engine/control/socket.h"

namespace twobw::control {

struct Meeting {
  Endpoint endpoint;  // where rank 0 listens, and the others go
  std::string token;  // from 16 to 256 bytes
  int rank = 0;
  int size = 1;
  std::string build;  // the same on all ranks
};

// Returns when all ranks are there. Throws RunError: on rank 0 with the ranks that did not come in time, on
// others where rank 0 was not reached, on all where a rank is there twice or of another build or size.
std::unique_ptr<Control> connect(const Meeting& meeting, const Options& options = {});
// On rank 0, where the port had to be known before the others could come; `meeting.endpoint` is not looked
// at.
std::unique_ptr<Control> connect(const Meeting& meeting, const Options& options, Listener listener);

// Without a store. Where the others find rank 0: on the loopback where all processes are on one host, else at
// MASTER_ADDR. Of rank 0 itself the address is to be set to the one at which it listens. `token` is the value
// of TWOBW_JOB_TOKEN; InputError where it is too short or too long.
Meeting meeting_of(const launch::World& world, const std::optional<std::string>& token, std::string build);

// No secret from those who know the job's id.
std::string derived_token(const std::string& job);
std::string random_token();

}  // namespace twobw::control
