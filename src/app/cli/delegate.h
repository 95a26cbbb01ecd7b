// What this program does not have it leaves to the one that has everything.
#pragma once

namespace twobw::cli {

struct Command;

// Becomes `twobw-engine`, which lies beside this program, with the same arguments: signals and the exit
// code are then its own. Throws RunError where it cannot be started.
[[noreturn]] void delegate(const Command& command, char** argv);

}  // namespace twobw::cli
