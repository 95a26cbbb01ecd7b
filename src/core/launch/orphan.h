// What becomes of a process whose launcher has died, by a SIGKILL for instance: nobody would end it, and a
// second start would compute beside it.
#pragma once

#include "core/launch/world.h"

namespace twobw::launch {

// Whether the launcher that the environment tells of stays for as long as its processes: torchrun's agent
// does, and so does mpirun. Slurm ends its processes itself; what is started by hand may outlive its shell.
bool launcher_stays(const Environment& environment);

// For a program that becomes another (exec) before end_with_parent(): the launcher may die in between.
void remember_parent();

// From now on this process gets a SIGTERM, which lets a run save and end, when the process that started it is
// gone. Throws RunError if it is already gone. (PR_SET_PDEATHSIG would do that when the thread that started
// it ends, and launchers may have threads for it.)
void end_with_parent();

}  // namespace twobw::launch
