// twobw plan: partitions a model and places its stages.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "app/cli/arguments.h"
#include "app/cli/json_output.h"
#include "app/cli/planning_options.h"
#include "app/cli/program.h"
#include "core/base/config.h"
#include "core/base/error.h"
#include "core/base/gpu_name.h"
#include "core/base/text.h"
#include "core/base/text_file.h"
#include "planning/host/cores.h"
#include "planning/planner/report/report.h"
#include "planning/planner/search/configuration.h"
#include "planning/planner/search/preference.h"
#include "planning/planner/search/search.h"

namespace twobw::cli {
namespace {

using planner::Problem;

struct PlanOptions {
  ProblemFiles files;
  std::string precision, schedule, write;
  std::optional<int> batch;
  PartialShape fixed;
  double margin = 0.1;
  planner::Preferences preferences;
  bool explain = false, json = false;
};

Problem constrained_problem(const Config& config, const PlanOptions& options) {
  Problem problem = make_problem(config, options.files, options.batch, options.fixed.microbatch);
  problem.margin = options.margin;
  problem.fixed = options.fixed;
  problem.fixed.predict = config.pipeline.predict;
  problem.fixed.shard_state = config.pipeline.shard_state;
  if (!options.schedule.empty()) problem.fixed.schedule = schedule::parse_kind(options.schedule);
  return problem;
}

// Names of the cluster's devices in a run on this machine: the devices of the configuration, or this
// machine's cores; empty if neither fits the cluster.
std::vector<std::string> local_devices(const Config& config, const planner::Cluster& cluster) {
  if (std::vector<std::string> named = single_devices(config.devices);
      cluster.nodes.size() == 1 && cluster.device_count() == std::ssize(named))
    return named;
  std::vector<std::string> names = device::core_names();
  const bool cores =
      cluster.nodes.size() == 1 && cluster.kinds.size() == 1 && cluster.kinds[0].name == "CPU core";
  if (!cores || cluster.device_count() > std::ssize(names)) return {};
  return names;
}

void write_run(const Config& config, const Problem& problem, const planner::Plan& plan,
               const std::string& path) {
  const Config planned = planner::with_plan(config, plan, local_devices(config, problem.cluster));
  validate(planned);
  write_text(path, fmt::format("# By `twobw plan` for {}: {} {} tokens/s.\n{}", problem.cluster.name,
                               plan.modelled ? "modelled at" : "forecast at", format_count(plan.tokens_per_s),
                               to_yaml(planned)));
}

int run(const RunArguments& arguments, const PlanOptions& options) {
  if (!options.write.empty()) check_writable("--write", options.write);
  Config config = load_to_plan(arguments);
  if (!options.precision.empty()) config.train.precision = options.precision;
  const Problem problem = constrained_problem(config, options);
  planner::Preferences preferences = options.preferences;
  preferences.cushion = !options.files.profile.empty();  // modelled times do not vary
  const planner::SearchResult result = planner::search_with(problem, preferences);
  const std::string text = options.json
                               ? planner::to_json(problem, result)
                               : planner::report(problem, result, config.model.family, options.explain);
  if (result.best && !options.write.empty()) write_run(config, problem, result.best->plan, options.write);
  fmt::print("{}", text);
  if (result.best && !options.write.empty() && !options.json)
    fmt::print("\nwritten to {}, for `twobw train {}`\n", options.write, options.write);
  return result.best ? 0 : 1;
}

}  // namespace

void add_plan(CLI::App& command, int& exit_code) {
  auto arguments = add_run_arguments(command);
  auto options = std::make_shared<PlanOptions>();
  command.add_option("--cluster", options->files.cluster,
                     "The hardware, as `twobw topology` writes it (default: this machine)");
  command.add_option("--profile", options->files.profile,
                     "Times measured by `twobw profile` (default: modelled from the devices' figures)");
  command.add_option("--batch", options->batch,
                     "Global batch, at most: sequences per update (default: the configuration's)");
  command.add_option("--schedule", options->schedule, "Fix the schedule: 2bw, flush, gpipe or sequential");
  command.add_option("--stages", options->fixed.stages, "Fix the number of stages, d");
  command.add_option("--replicas", options->fixed.replicas, "Fix the number of replicas, w");
  command.add_option("--microbatch", options->fixed.microbatch, "Fix the sequences per microbatch, b");
  command.add_option("--microbatches", options->fixed.microbatches, "Fix the microbatches per update, m");
  command.add_option("--extra", options->fixed.extra, "Fix the extra microbatches in flight, e");
  // Bound to an optional, CLI11 makes it false where neither flag is given.
  const auto add_choice = [&](const char* flags, std::optional<bool>& choice, const char* text) {
    command.add_flag_function(
        flags, [&choice](std::int64_t count) { choice = count > 0; }, text);
  };
  add_choice("--recompute,!--no-recompute", options->fixed.recompute,
             "Recompute activations in every stage, or in none");
  add_choice("--double-buffer-gradients,!--no-double-buffer-gradients",
             options->fixed.double_buffer_gradients,
             "2bw: a second gradient buffer where a stage would wait, or one buffer everywhere");
  add_choice("--defer-tied-update,!--no-defer-tied-update", options->fixed.defer_tied_update,
             "2bw with one replica: update tied weights later, to hide their exchange, or not");
  command.add_option("--precision", options->precision,
                     "Compute precision: fp32, fp16 or bf16 (default: train.precision)");
  command.add_option("--margin", options->margin, "Fraction of each device's memory to keep free")
      ->capture_default_str();
  command
      .add_option(
          "--tolerance", options->preferences.tolerance,
          "Fraction of throughput to give up for a plan without delayed updates or with fewer stages (ten "
          "times that, at most 0.2, for one that predicts from half of a batch)")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command.add_flag("--explain", options->explain,
                   "List every family of plans, with the reason why it was not chosen");
  add_json_flag(command, options->json);
  command.add_option("--write", options->write, "Write a configuration for `twobw train`");
  command.callback([arguments, options, &exit_code] { exit_code = run(*arguments, *options); });
}

}  // namespace twobw::cli
