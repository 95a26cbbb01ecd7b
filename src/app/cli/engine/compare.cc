// twobw compare: 2bw against flush, in time and in loss.
#include "app/train/compare.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "app/cli/arguments.h"
#include "app/cli/engine/commands.h"
#include "app/train/comparison.h"
#include "core/base/config.h"
#include "engine/device/cpu.h"

namespace twobw::cli {
namespace {

struct CompareOptions {
  std::optional<std::int64_t> updates;
  std::optional<double> target;
  int seeds = 3;
};

int run(const RunArguments& arguments, const CompareOptions& options) {
  const Config config = train::to_compare(load(arguments), options.updates);
  device::initialize();
  const train::Comparison comparison = train::compare({.config = config, .seeds = options.seeds});
  fmt::print("\n{}\n", train::report(comparison, options.target));
  fmt::print("curves and numbers in {}/compare.json\n", config.run_dir);
  return 0;
}

}  // namespace

void add_compare(CLI::App& command, int& exit_code) {
  auto arguments = add_run_arguments(command);
  auto options = std::make_shared<CompareOptions>();
  command.add_option("--updates", options->updates, "Updates of every run (default: train.updates)")
      ->check(CLI::PositiveNumber);
  command.add_option("--seeds", options->seeds, "Seeds: train.seed and those after it")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--target", options->target,
                     "Validation loss to reach (default: the worse of the two final losses)");
  command.callback([arguments, options, &exit_code] {
    sort_out(*arguments);
    exit_code = run(*arguments, *options);
  });
}

}  // namespace twobw::cli
