// One file a command. Each adds its subcommand to the program; the callback sets the exit code.
#pragma once

namespace CLI {
class App;
}

namespace twobw::cli {

void add_train(CLI::App& app, int& exit_code);
void add_verify(CLI::App& app, int& exit_code);
void add_profile(CLI::App& app, int& exit_code);
void add_plan(CLI::App& app, int& exit_code);
void add_topology(CLI::App& app, int& exit_code);
void add_schedule(CLI::App& app, int& exit_code);
void add_simulate(CLI::App& app, int& exit_code);
void add_generate(CLI::App& app, int& exit_code);

}  // namespace twobw::cli
