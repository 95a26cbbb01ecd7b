// twobw eval: loss and accuracy of a model on data.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>

#include "app/cli/engine/commands.h"
#include "app/cli/json_output.h"
#include "app/inference/evaluation.h"
#include "core/base/error.h"
#include "engine/device/device.h"

namespace twobw::cli {
namespace {

struct EvalOptions {
  std::string path;
  std::vector<std::string> settings;
  bool all = false, json = false;
};

// Returns the exit code: 1 if the loss is not finite; under --json it is then null.
int evaluate(const EvalOptions& options) {
  inference::ModelSource source = inference::find_model(options.path, options.settings);
  if (options.all) source.sample.reset();
  if (!source.has_data) {
    fail_input("'{}' is a model without data; give data=FILE, token files or texts to evaluate it on",
               options.path);
  }
  device::initialize();
  const inference::Evaluation result = inference::evaluate(source);
  const bool finite = std::isfinite(result.loss);
  if (options.json) {
    fmt::print("{}\n", inference::to_json(result).dump());
  } else if (finite) {
    fmt::print("{}, {} on {}\n{}", source.folder, name(result.head), describe(source.config.data.validation),
               inference::describe(result));
  }
  if (finite) return 0;
  print_error(
      fmt::format("the loss of '{}' is not finite; its weights contain NaN, inf or overflow", source.folder));
  return 1;
}

}  // namespace

void add_eval(CLI::App& command, int& exit_code) {
  auto options = std::make_shared<EvalOptions>();
  command.add_option("model", options->path, "A run, a checkpoint, or a Hugging Face folder")->required();
  command.add_option("settings", options->settings,
                     "[data=FILE] [key.path=value ...], for instance pipeline.stages; see "
                     "docs/reference/configuration.md");
  command.add_flag(
      "--all", options->all,
      "Evaluate all of a run's validation data (default: the sequences that training evaluates)");
  add_json_flag(command, options->json);
  command.callback([options, &exit_code] { exit_code = evaluate(*options); });
}

}  // namespace twobw::cli
