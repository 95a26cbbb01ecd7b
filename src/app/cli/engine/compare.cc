// twobw compare: trains under 2bw and flush and compares time and loss.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "app/cli/arguments.h"
#include "app/cli/engine/commands.h"
#include "app/cli/json_output.h"
#include "app/train/comparison.h"
#include "core/base/config.h"
#include "engine/device/device.h"

namespace twobw::cli {
namespace {

struct CompareOptions {
  std::optional<std::int64_t> updates;
  std::optional<double> target;
  int seeds = 3;
  bool json = false;
};

Json to_json(const train::Comparison& comparison, std::optional<double> target) {
  Json json = train::to_json(comparison);
  const auto add = [&](const char* key, const train::Estimate& value) {
    json[key] = {{"mean", value.mean}, {"standard_error", value.error ? Json(*value.error) : Json()}};
  };
  add("flush_loss", train::final_loss(comparison.flush));
  add("2bw_loss", train::final_loss(comparison.two_bw));
  add("loss_difference", train::difference(comparison));
  json["target"] = target.value_or(train::default_target(comparison));
  json["advice"] = train::advise(comparison, json["target"]);
  return json;
}

int run(const RunArguments& arguments, const CompareOptions& options) {
  const Config config = train::to_compare(load(arguments), options.updates);
  device::initialize();
  std::optional<ProgressOnStderr> quiet(std::in_place, options.json);
  const train::Comparison comparison = train::compare({.config = config, .seeds = options.seeds});
  quiet.reset();
  if (options.json) {
    print_json(to_json(comparison, options.target));
    return 0;
  }
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
  command.add_option("--seeds", options->seeds, "Number of seeds, from train.seed")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--target", options->target,
                     "Validation loss to reach (default: the worse of the two final losses)");
  add_json_flag(command, options->json);
  command.callback([arguments, options, &exit_code] { exit_code = run(*arguments, *options); });
}

}  // namespace twobw::cli
