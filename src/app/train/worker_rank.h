// Ranks above 0: run their workers, and send snapshots and final weights to rank 0.
#pragma once

#include <memory>

#include "engine/transport/processes.h"

namespace twobw::train {

// Returns when the run has ended everywhere. `plans`: as for await_decision(). Prints nothing. Throws
// InputError or RunError.
void run_worker_rank(const std::shared_ptr<transport::Processes>& processes, bool plans);

// Message to rank 0: this process received a signal to end the run.
inline constexpr const char* kInterrupted = "interrupted";

}  // namespace twobw::train
