// The commands: a file each, a line here, an entry in commands.cc.
//
// There are two programs. `twobw-engine` has every command; `twobw`, which people call, has those that
// need no LibTorch, for that takes a fifth of a second to load, and hands the others on (cli/engine/, see
// delegate.h). So the declarations are weak: where a command's file is not part of the program it is null.
#pragma once

#include <span>

namespace CLI {
class App;
}

namespace twobw::cli {

struct Command {
  const char* group;  // heading in the help
  const char* name;
  const char* purpose;
  const char* example;
  const char* effect;  // of the example
  // Adds the options; the callback sets the exit code. Null: this program does not have it.
  void (*add)(CLI::App& command, int& exit_code);
  bool in_processes = false;  // whether a launcher may start several processes of it
  // Whether threads of one loop wait for each other without spinning for long: where other programs use the
  // cores too, short loops otherwise take ten times as long. Training keeps OpenMP's way, the fastest on
  // cores of its own.
  bool yields_cores = false;
};

// In the order of the help, group after group.
std::span<const Command> commands();

[[gnu::weak]] void add_train(CLI::App& command, int& exit_code);
[[gnu::weak]] void add_compare(CLI::App& command, int& exit_code);
[[gnu::weak]] void add_verify(CLI::App& command, int& exit_code);
[[gnu::weak]] void add_profile(CLI::App& command, int& exit_code);
[[gnu::weak]] void add_plan(CLI::App& command, int& exit_code);
[[gnu::weak]] void add_topology(CLI::App& command, int& exit_code);
[[gnu::weak]] void add_schedule(CLI::App& command, int& exit_code);
[[gnu::weak]] void add_simulate(CLI::App& command, int& exit_code);
[[gnu::weak]] void add_tokenizer(CLI::App& command, int& exit_code);
[[gnu::weak]] void add_prepare(CLI::App& command, int& exit_code);
[[gnu::weak]] void add_inspect(CLI::App& command, int& exit_code);
[[gnu::weak]] void add_batches(CLI::App& command, int& exit_code);
[[gnu::weak]] void add_checkpoint(CLI::App& command, int& exit_code);
[[gnu::weak]] void add_eval(CLI::App& command, int& exit_code);
[[gnu::weak]] void add_generate(CLI::App& command, int& exit_code);
[[gnu::weak]] void add_export(CLI::App& command, int& exit_code);
[[gnu::weak]] void add_embed(CLI::App& command, int& exit_code);

}  // namespace twobw::cli
