// twobw topology: describes this machine, or the hosts of a launcher's processes, for `twobw plan --cluster`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "app/cli/arguments.h"
#include "app/cli/json_output.h"
#include "app/cli/planning_options.h"
#include "app/cli/program.h"
#include "core/base/text_file.h"
#include "planning/host/machine.h"

namespace twobw::cli {
namespace {

ClusterText describe_machine(const std::string& output) {
  if (!output.empty()) check_writable("--output", output);
  const device::Machine machine = device::measure_machine();
  return {measure::describe(machine),
          fmt::format("{} device{}", machine.cores, machine.cores == 1 ? "" : "s")};
}

void show(const ClusterText& cluster, const std::string& output, bool json) {
  if (!output.empty()) write_text(output, cluster.yaml);
  if (json) {
    print_json(cli::to_json(YAML::Load(cluster.yaml)));
  } else if (output.empty()) {
    fmt::print("{}", cluster.yaml);
  } else {
    fmt::print("{} written to {}\n", cluster.summary, output);
  }
}

}  // namespace

void add_topology_options(CLI::App& command, DescribeHosts describe_hosts) {
  auto arguments = add_run_arguments(command);
  auto output = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  command.add_option("--output", *output, "The file to write (default: standard output)");
  add_json_flag(command, *json);
  command.callback([arguments, output, json, describe_hosts] {
    const bool configured = !arguments->file.empty() || !arguments->overrides.empty();
    const Config config = configured ? load_to_plan(*arguments) : Config();
    const launch::World world = launch::read_world(launch::process_environment());
    const ClusterText cluster =
        world.size > 1 ? describe_hosts(world, config, *output) : describe_machine(*output);
    if (world.rank == 0) show(cluster, *output, *json);
  });
}

void add_topology(CLI::App& command, int&) {
  add_topology_options(command, /*describe_hosts=*/nullptr);
}

}  // namespace twobw::cli
