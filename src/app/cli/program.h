// The whole command line, for main(): a program that adds a model family of its own has all commands.
#pragma once

namespace twobw::cli {

// Reads the command line, runs one command, and turns failures into one sentence. Gives the exit code: 0
// done, 1 a check or the run failed, 2 the input is wrong. Call `leave` (core/base/output.h) with it.
int run_program(int argc, char** argv);

}  // namespace twobw::cli
