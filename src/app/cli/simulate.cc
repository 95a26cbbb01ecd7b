// twobw simulate: how fast a schedule would run, and what its stages would wait for.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli/arguments.h"
#include "app/cli/commands.h"
#include "app/cli/problem.h"
#include "app/cli/shape_options.h"
#include "app/cli/simulate_report.h"
#include "app/cli/terminal.h"
#include "core/base/config.h"
#include "core/base/error.h"
#include "core/base/units.h"
#include "core/simulator/simulate.h"
#include "core/telemetry/trace.h"
#include "planning/planner/costs/simulated_cost.h"
#include "planning/planner/search/configuration.h"

namespace twobw::cli {
namespace {

using schedule::Spec;
using simulator::Result;
using simulator::System;

struct SimulateOptions {
  std::shared_ptr<RunArguments> arguments;  // a schedule, or a configuration
  ProblemFiles files;
  Spec spec = {.shape = {.stages = 4, .microbatches = 8}, .updates = 3};
  // As typed: one for all stages, or one a stage.
  std::vector<std::string> forward = {"1"}, backward = {"2"}, step = {"0"}, predict = {"0"}, reduce = {"0"};
  std::string activation_bytes = "0", bandwidth, latency = "0";
  std::string trace, color = "auto";
  bool json = false;
};

double parse(std::string_view option, const std::string& text,
             const std::function<std::optional<double>(std::string_view)>& parser, const char* allowed) {
  const std::optional<double> value = parser(text);
  if (!value || *value < 0) fail_input("{} is '{}'; allowed: {}", option, text, allowed);
  return *value;
}

std::vector<double> times_by_stage(std::string_view option, const std::vector<std::string>& texts,
                                   int stages) {
  if (texts.size() != 1 && std::ssize(texts) != stages) {
    fail_input("{} has {} times for {} stages; allowed: one for all, or one a stage", option, texts.size(),
               stages);
  }
  std::vector<double> times;
  for (int r = 0; r < stages; ++r) {
    times.push_back(parse(option, texts[texts.size() == 1 ? 0 : r], parse_seconds,
                          "a time of at least 0, such as 0.5 or 3ms"));
  }
  return times;
}

System stated_system(const SimulateOptions& options) {
  const int d = options.spec.shape.stages;
  System system;
  system.stages.resize(d);
  const auto fill = [&](std::string_view option, const std::vector<std::string>& texts,
                        double simulator::StageTimes::*field) {
    const std::vector<double> times = times_by_stage(option, texts, d);
    for (int r = 0; r < d; ++r) system.stages[r].*field = times[r];
  };
  fill("--forward", options.forward, &simulator::StageTimes::forward);
  fill("--backward", options.backward, &simulator::StageTimes::backward);
  fill("--step", options.step, &simulator::StageTimes::step);
  fill("--prediction", options.predict, &simulator::StageTimes::predict);
  fill("--reduce", options.reduce, &simulator::StageTimes::reduce);

  const double bytes = parse("--activation-bytes", options.activation_bytes, parse_bytes,
                             "a size of at least 0, such as 4MiB");
  const double latency =
      parse("--latency", options.latency, parse_seconds, "a time of at least 0, such as 5us");
  double bandwidth = std::numeric_limits<double>::infinity();
  if (!options.bandwidth.empty()) {
    const char* allowed = "a rate above 0, such as 25Gbit/s";
    bandwidth = parse("--bandwidth", options.bandwidth, parse_rate, allowed);
    if (bandwidth == 0) fail_input("--bandwidth is '{}'; allowed: {}", options.bandwidth, allowed);
  }
  for (int r = 0; r + 1 < d; ++r) {
    system.boundaries.push_back({bytes, bytes, 2 * r, 2 * r + 1});
    system.channels.insert(system.channels.end(), 2, {.latency = latency, .bandwidth = bandwidth});
  }
  return system;
}

void show(const Spec& spec, const Result& result, const SimulateOptions& options,
          const SimulatedPlan* simulated = nullptr) {
  if (result.update_seconds <= 0) fail_input("every time is 0; give --forward or --backward a time");
  if (!options.trace.empty()) telemetry::write_trace(options.trace, result.events);
  if (options.json) {
    print_simulation_json(spec, result, simulated);
  } else {
    print_simulation(spec, result, simulated, options.color);
  }
}

bool wants_events(const SimulateOptions& options) {
  return !options.trace.empty() || (!options.json && terminal_columns() > 0);
}

void check_size(const Spec& spec) {
  constexpr std::int64_t kMostForwards = 100'000'000;
  schedule::validate(spec);
  check_forwards(spec, kMostForwards);
}

void run_schedule(SimulateOptions options) {
  Spec& spec = options.spec;
  if (!options.arguments->file.empty()) spec.shape.schedule = schedule::parse_kind(options.arguments->file);
  check_size(spec);
  const System system = stated_system(options);
  show(spec, simulator::simulate(spec, system, wants_events(options)), options);
}

// The pipeline that the configuration describes, on the devices where it is fastest.
void run_configuration(const SimulateOptions& options) {
  const Config config = load(*options.arguments);
  planner::Problem problem = make_problem(config, options.files, {}, config.pipeline.microbatch);
  problem.margin = 0;
  const planner::Plan plan = planner::plan_as_configured(config, problem);
  Spec spec = planner::spec_of_one_replica(plan);
  spec.updates = options.spec.updates;
  check_size(spec);
  const Result result = simulator::simulate(spec, planner::system_of(problem, plan), wants_events(options));
  const SimulatedPlan simulated{
      .cluster = problem.cluster,
      .plan = plan,
      .tokens_per_s = 1.0 * plan.shape.batch() * problem.context / result.update_seconds};
  show(spec, result, options, &simulated);
}

void run(const SimulateOptions& options) {
  const RunArguments& arguments = *options.arguments;
  const auto& kinds = schedule::all_kinds();
  const bool schedule = arguments.overrides.empty() && options.files.profile.empty() &&
                        (arguments.file.empty() ||
                         std::any_of(kinds.begin(), kinds.end(),
                                     [&](auto kind) { return schedule::name(kind) == arguments.file; }) ||
                         !std::filesystem::exists(arguments.file));
  if (schedule) {
    run_schedule(options);
  } else {
    run_configuration(options);
  }
}

}  // namespace

void add_simulate(CLI::App& command, int& exit_code) {
  auto options = std::make_shared<SimulateOptions>();
  options->arguments = add_run_arguments(command);
  command.get_option("config")->description(
      "sequential, gpipe, flush, 2bw (default) or stash, with the times below; or [CONFIG.yaml] "
      "[key.path=value ...]");
  command.add_option("--profile", options->files.profile,
                     "For a configuration: times measured by `twobw profile` (default: modelled)");
  command.add_option(
      "--cluster", options->files.cluster,
      "For a configuration: the hardware, as `twobw topology` writes it (default: this machine)");
  add_shape_options(command, options->spec.shape);
  command.add_option("--updates", options->spec.updates, "Updates of the run that is traced")
      ->capture_default_str();
  const auto times = [&](const char* name, std::vector<std::string>& value, const char* text) {
    command.add_option(name, value, text)->delimiter(',')->allow_extra_args(false)->capture_default_str();
  };
  times("--forward", options->forward, "Time of a forward: one, or one a stage (1ms,2ms,1ms)");
  times("--backward", options->backward, "Time of a backward, likewise");
  times("--step", options->step, "Time of an update on the compute thread, likewise");
  times("--prediction", options->predict, "Time of a prediction on the compute thread, likewise");
  times("--reduce", options->reduce, "Time of an update's all-reduce over replicas, likewise");
  command.add_option("--activation-bytes", options->activation_bytes,
                     "What a microbatch sends to the next stage, and back");
  command.add_option("--bandwidth", options->bandwidth,
                     "Of each link, in each direction (default: unlimited)");
  command.add_option("--latency", options->latency, "Of each link")->capture_default_str();
  command.add_option("--trace", options->trace,
                     "Write every instruction's times to this file, for Perfetto or chrome://tracing");
  command.add_option("--color", options->color, "Colour by weight version")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str();
  command.add_flag("--json", options->json, "Print JSON instead");
  command.callback([options, &exit_code] {
    sort_out(*options->arguments);
    run(*options);
    exit_code = 0;
  });
}

}  // namespace twobw::cli
