// Ends a process whose launcher has died, for instance by SIGKILL: otherwise a restarted run would compete
// with it.
#pragma once

#include <string>

#include "core/launch/world.h"

namespace twobw::launch {

// True if the launcher outlives its processes: torchrun's agent and mpirun do. Slurm ends its processes
// itself; processes started by the user may outlive their shell.
bool launcher_stays(const Environment& environment);

// Called before exec, if the new program calls end_with_parent(): the launcher may die in between.
void remember_parent();

// Prints a sentence and sends this process a SIGTERM, which lets a run save and end, when its parent process
// has ended. Throws RunError if that has happened already. `prefix`: between "twobw: " and the sentence.
// (PR_SET_PDEATHSIG would act at the end of the parent's thread.)
void end_with_parent(const std::string& prefix);

}  // namespace twobw::launch
