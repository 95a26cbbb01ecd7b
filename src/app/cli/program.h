// The command line of two programs. `twobw`, which people call, has the commands that need no LibTorch, which
// takes a fifth of a second to load. For the others it becomes `twobw-engine`, which has all.
#pragma once

#include <span>
#include <string_view>

namespace CLI {
class App;
}

namespace twobw::cli {

// Adds a command's options; the callback sets the exit code.
using AddOptions = void (*)(CLI::App& command, int& exit_code);

struct Command {
  const char* group;  // heading in the help
  const char* name;
  const char* purpose;
  const char* example;
  const char* effect;         // of the example
  AddOptions add;             // null: twobw-engine has the command
  bool in_processes = false;  // whether a launcher may start several processes, each of them twobw-engine
  // Whether threads of OpenMP spin only briefly while they wait for each other. If other programs share the
  // cores, short loops otherwise take ten times as long. Training keeps OpenMP's default, the fastest on idle
  // cores.
  bool yields_cores = false;
};

// The table (commands.cc), in the order of the help, group after group.
std::span<const Command> commands();

// The commands that need no LibTorch.
void add_config(CLI::App& command, int& exit_code);
void add_doctor(CLI::App& command, int& exit_code);
void add_inspect(CLI::App& command, int& exit_code);
void add_plan(CLI::App& command, int& exit_code);
void add_prepare(CLI::App& command, int& exit_code);
void add_schedule(CLI::App& command, int& exit_code);
void add_simulate(CLI::App& command, int& exit_code);
void add_tokenizer(CLI::App& command, int& exit_code);
void add_topology(CLI::App& command, int& exit_code);  // of this machine

// A command that the table leaves to twobw-engine, or that does more there.
struct EngineCommand {
  std::string_view name;
  AddOptions add;
};

// Prints "twobw: SENTENCE" on standard error, after everything printed before.
void print_error(std::string_view sentence);

// Reads the command line, runs one command, and turns failures into one sentence. Returns the exit code: 0
// done, 1 a check or the run failed, 2 the input is wrong. Call `leave` (core/base/output.h) with it.
// `engine` is empty in `twobw` and kEngineCommands (engine/commands.h) in a program with LibTorch.
int run_program(int argc, char** argv, std::span<const EngineCommand> engine);

}  // namespace twobw::cli
