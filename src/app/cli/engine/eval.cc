// twobw eval: loss and accuracy of a model on data.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <memory>

#include "app/cli/engine/commands.h"
#include "app/cli/json_output.h"
#include "app/inference/evaluation.h"
#include "core/base/error.h"
#include "core/base/output.h"
#include "engine/device/device.h"

namespace twobw::cli {
namespace {

struct EvalOptions {
  std::string path;
  std::vector<std::string> settings;
  bool all = false, json = false;
};

void evaluate(const EvalOptions& options) {
  inference::ModelSource source = inference::find_model(options.path, options.settings);
  if (options.all) source.sample.reset();
  if (!source.has_data) {
    fail_input("'{}' is a model without data; give data=FILE, token files or texts to evaluate it on",
               options.path);
  }
  device::initialize();
  const inference::Evaluation result = inference::evaluate(source);
  const bool finite = std::isfinite(result.loss);
  if (options.json) fmt::print("{}\n", inference::to_json(result).dump());
  if (!finite) {
    flush_output();
    fail_run("the loss of '{}' is not finite; its weights contain NaN, inf or overflow", source.folder);
  }
  if (options.json) return;
  fmt::print("{}, {} on {}\n{}", source.folder, name(result.head), describe(source.config.data.validation),
             inference::describe(result));
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
  command.callback([options, &exit_code] {
    evaluate(*options);
    exit_code = 0;
  });
}

}  // namespace twobw::cli
