// twobw topology: describes this machine for `twobw plan`, or under a launcher the hosts of its processes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "app/cli/arguments.h"
#include "app/cli/planning_options.h"
#include "app/cli/program.h"
#include "core/base/text_file.h"
#include "planning/host/local_cluster.h"

namespace twobw::cli {
namespace {

void describe_machine(const std::string& output) {
  if (!output.empty()) check_writable("--output", output);
  const device::Machine machine = device::measure_machine();
  const std::string text = measure::describe(machine);
  if (output.empty()) {
    fmt::print("{}", text);
    return;
  }
  write_text(output, text);
  fmt::print("{} device{} written to {}\n", machine.cores, machine.cores == 1 ? "" : "s", output);
}

}  // namespace

void add_topology_options(CLI::App& command, int& exit_code, DescribeHosts describe_hosts) {
  auto arguments = add_run_arguments(command);
  auto output = std::make_shared<std::string>();
  command.add_option("--output", *output, "The file to write; else it is printed");
  command.callback([arguments, output, describe_hosts, &exit_code] {
    sort_out(*arguments);
    const bool configured = !arguments->file.empty() || !arguments->overrides.empty();
    const Config config = configured ? load_to_plan(*arguments) : Config();
    const launch::World world = launch::read_world(launch::process_environment());
    if (world.size > 1) {
      describe_hosts(world, config, *output);
    } else {
      describe_machine(*output);
    }
    exit_code = 0;
  });
}

void add_topology(CLI::App& command, int& exit_code) {
  add_topology_options(command, exit_code, /*describe_hosts=*/nullptr);
}

}  // namespace twobw::cli
