// What the processes of a run do besides rank 0: they train the workers that are theirs, and send what is to
// be written to rank 0.
#pragma once

#include <memory>

#include "engine/transport/processes.h"

namespace twobw::train {

// Hears from rank 0 what to run, and returns when that has ended everywhere. `plans`: whether rank 0 is to
// plan the run, for which links are measured. Prints nothing. Throws InputError or RunError.
void follow(const std::shared_ptr<transport::Processes>& processes, bool plans);

// The word to rank 0 that this process was asked to end the run.
inline constexpr const char* kInterrupted = "interrupted";

}  // namespace twobw::train
