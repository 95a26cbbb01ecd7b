// twobw batches: the batches of a run, as tensors.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "app/cli/arguments.h"
#include "app/cli/engine/commands.h"
#include "app/train/batch_file.h"
#include "core/base/text_file.h"
#include "engine/device/cpu.h"

namespace twobw::cli {

void add_batches(CLI::App& command, int& exit_code) {
  struct Options {
    std::int64_t updates = 1;
    std::string out;
  };
  auto arguments = add_run_arguments(command);
  auto options = std::make_shared<Options>();
  command.add_option("--updates", options->updates, "Number of updates, from the first")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_option("--out", options->out, "The safetensors file to write, tensors FIELD.UPDATE.MICROBATCH")
      ->required();
  command.callback([arguments, options, &exit_code] {
    sort_out(*arguments);
    check_writable("--out", options->out);
    device::initialize();
    const Config config = load(*arguments);
    train::write_batches(config, options->updates, options->out);
    fmt::print("{} microbatches of {} updates are in {}\n",
               options->updates * config.pipeline.microbatches * config.pipeline.replicas, options->updates,
               options->out);
    exit_code = 0;
  });
}

}  // namespace twobw::cli
