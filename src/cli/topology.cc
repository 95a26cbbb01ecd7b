// twobw topology: describes this machine for `twobw plan`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/text_file.h"
#include "cli/commands.h"
#include "measure/local_cluster.h"

namespace twobw::cli {

void add_topology(CLI::App& command, int& exit_code) {
  auto output = std::make_shared<std::string>();
  command.add_option("--output", *output, "The file to write; else it is printed");
  command.callback([output, &exit_code] {
    const device::Machine machine = device::measure_machine();
    const std::string text = measure::describe(machine);
    if (output->empty()) {
      fmt::print("{}", text);
    } else {
      write_text(*output, text);
      fmt::print("{} device{} written to {}\n", machine.cores, machine.cores == 1 ? "" : "s", *output);
    }
    exit_code = 0;
  });
}

}  // namespace twobw::cli
