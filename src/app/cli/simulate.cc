// twobw simulate: predicts the throughput of a schedule, and the idle time of its stages by cause.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli/arguments.h"
#include "app/cli/json_output.h"
#include "app/cli/planning_options.h"
#include "app/cli/program.h"
#include "core/base/config.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/simulator/simulate.h"
#include "core/simulator/timeline.h"
#include "core/telemetry/event.h"
#include "planning/planner/costs/simulated_cost.h"
#include "planning/planner/hardware/yaml_fields.h"
#include "planning/planner/report/report.h"
#include "planning/planner/search/configuration.h"

namespace twobw::cli {
namespace {

using schedule::Spec;
using simulator::Result;
using simulator::StageUse;
using simulator::System;

struct SimulateOptions {
  std::shared_ptr<RunArguments> arguments;  // a schedule, or a configuration
  ProblemFiles files;
  Spec spec = {.shape = {.stages = 4, .microbatches = 8}, .updates = 3};
  // As typed: one for all stages, or one per stage.
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
    fail_input("{} has {} times for {} stages; allowed: one for all, or one per stage", option, texts.size(),
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

// A configuration, as it was simulated.
struct SimulatedPlan {
  const planner::Cluster& cluster;
  const planner::Plan& plan;
  double tokens_per_s = 0;
};

std::string duration(double seconds) {
  if (seconds >= 1) return fmt::format("{:.4g} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.4g} ms", 1e3 * seconds) : fmt::format("{:.4g} us", 1e6 * seconds);
}

double mean_utilisation(const Result& result) {
  double sum = 0;
  for (const StageUse& stage : result.stages) sum += stage.utilisation;
  return sum / static_cast<double>(result.stages.size());
}

std::string describe(const Spec& spec) {
  return fmt::format("{}: d={} stages, m={} microbatches, e={} extra{}{}",
                     schedule::name(spec.shape.schedule), spec.shape.stages, spec.shape.microbatches,
                     spec.shape.extra, schedule::has_second_gradient(spec) ? ", two gradient buffers" : "",
                     spec.shape.defer_tied_update ? ", late tie" : "");
}

struct Column {
  const char* head;
  const char* key;
  double StageUse::*field;
};
constexpr Column kColumns[] = {
    {"forward", "forward", &StageUse::forward},
    {"backward", "backward", &StageUse::backward},
    {"step", "step", &StageUse::step},
    {"handing over", "handing_over", &StageUse::handing_over},
    {"waits: input", "wait_activation", &StageUse::wait_activation},
    {"gradient", "wait_gradient", &StageUse::wait_gradient},
    {"reduction", "wait_reduce", &StageUse::wait_reduce},
    {"other", "wait_other", &StageUse::wait_other},
};

Json to_json(const Spec& spec, const Result& result) {
  Json json = {{"modelled", true},
               {"schedule", schedule::name(spec.shape.schedule)},
               {"stages", spec.shape.stages},
               {"microbatches", spec.shape.microbatches},
               {"extra", spec.shape.extra},
               {"double_buffer_gradients", schedule::has_second_gradient(spec)},
               {"updates", spec.updates},
               {"update_seconds", result.update_seconds},
               {"microbatches_per_s", spec.shape.microbatches / result.update_seconds},
               {"utilisation", mean_utilisation(result)},
               {"total_seconds", result.total_seconds}};
  for (const StageUse& stage : result.stages) {
    Json& entry = json["seconds_of_an_update"].emplace_back();
    for (const Column& column : kColumns) entry[column.key] = stage.*column.field;
    entry["utilisation"] = stage.utilisation;
  }
  return json;
}

// Adds the plan of a configuration.
void add_plan(Json& json, const SimulatedPlan& simulated) {
  const planner::Plan& plan = simulated.plan;
  json["tokens_per_s"] = simulated.tokens_per_s;
  json["measured_layers"] = !plan.modelled;
  json["replicas"] = plan.shape.replicas;
  for (const planner::StagePlan& stage : plan.stages) {
    json["split"].push_back(stage.last_layer - stage.first_layer);
    json["devices"].push_back(planner::devices_json(simulated.cluster, stage));
    Json& memory = json["memory"].emplace_back();
    memory["bytes"] = stage.memory.total();
    for (int i = 0; i < kTerms; ++i) memory[std::string(name(static_cast<Term>(i)))] = stage.memory.bytes[i];
  }
}

std::string in_percent(double part, double whole) {
  return part == 0 ? "-" : fmt::format("{:.1f}%", 100 * part / whole);
}

void print_table(const Spec& spec, const Result& result) {
  fmt::print("{}\n", describe(spec));
  fmt::print("modelled, in the steady state: {} an update, {:.4g} microbatches/s, {:.1f}% busy\n",
             duration(result.update_seconds), spec.shape.microbatches / result.update_seconds,
             100 * mean_utilisation(result));
  fmt::print("modelled, from the start: {} updates in {}\n\n", spec.updates, duration(result.total_seconds));

  const auto unused = [&](const Column& column) {
    return std::all_of(result.stages.begin(), result.stages.end(),
                       [&](const StageUse& use) { return use.*column.field == 0; });
  };
  std::vector<std::string> head = {"stage", "busy"};
  for (const Column& column : kColumns) {
    if (!unused(column)) head.emplace_back(column.head);
  }
  std::set<std::size_t> numbers;
  for (std::size_t i = 1; i < head.size(); ++i) numbers.insert(i);
  TextTable table(head);
  table.align_right(numbers);
  for (std::size_t r = 0; r < result.stages.size(); ++r) {
    const StageUse& use = result.stages[r];
    std::vector<std::string> row = {fmt::format("{}", r), in_percent(use.utilisation, 1)};
    for (const Column& column : kColumns) {
      if (!unused(column)) row.push_back(in_percent(use.*column.field, result.update_seconds));
    }
    table.add(row);
  }
  fmt::print("{}", table.text());
}

// The start of the run: as much as one line of the terminal shows distinctly.
void print_timeline(const Spec& spec, const Result& result, const std::string& color) {
  const std::int64_t columns = terminal_columns();
  if (columns == 0) return;
  double shortest = result.total_seconds;
  for (const schedule::Event& event : result.events) {
    if (event.instruction.op == schedule::Op::Forward && event.end > event.begin)
      shortest = std::min(shortest, event.end - event.begin);
  }
  const double seconds = std::min(result.total_seconds, shortest * static_cast<double>(columns) / 3);
  if (seconds <= 0) return;
  fmt::print("\nthe first {}: 1 forward, 1' backward, | update, . idle\n{}", duration(seconds),
             simulator::draw_timeline(
                 result.events, spec.shape.stages,
                 {.seconds = seconds, .columns = static_cast<int>(columns), .color = wants_color(color)}));
}

void print_simulation(const Spec& spec, const Result& result, const SimulatedPlan* simulated,
                      const std::string& color) {
  print_table(spec, result);
  if (simulated != nullptr) {
    const planner::Plan& plan = simulated->plan;
    fmt::print("\nmodelled: {} tokens/s on {} replicas, from {} layers\n",
               format_count(simulated->tokens_per_s), plan.shape.replicas,
               plan.modelled ? "modelled" : "measured");
    for (std::size_t r = 0; r < plan.stages.size(); ++r) {
      const planner::StagePlan& stage = plan.stages[r];
      fmt::print("  stage {}: layers {}..{} on {}, {} of tensors\n", r, stage.first_layer,
                 stage.last_layer - 1, planner::describe_devices(simulated->cluster, stage),
                 format_bytes(static_cast<std::int64_t>(stage.memory.total())));
    }
  }
  print_timeline(spec, result, color);
}

void show(const Spec& spec, const Result& result, const SimulateOptions& options,
          const SimulatedPlan* simulated = nullptr) {
  if (result.update_seconds <= 0) fail_input("every time is 0; give --forward or --backward a time");
  if (!options.trace.empty()) telemetry::write_trace(options.trace, result.events);
  if (options.json) {
    Json json = to_json(spec, result);
    if (simulated != nullptr) add_plan(json, *simulated);
    print_json(json);
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

void add_simulate(CLI::App& command, int&) {
  auto options = std::make_shared<SimulateOptions>();
  options->arguments = add_run_arguments(command);
  command.get_option("config")->description(
      "A schedule (sequential, gpipe, flush, 2bw or stash) with the times below, or [CONFIG.yaml] "
      "[key.path=value ...]");
  command.add_option("--profile", options->files.profile,
                     "For a configuration: times measured by `twobw profile` (default: modelled)");
  command.add_option(
      "--cluster", options->files.cluster,
      "For a configuration: the hardware, as `twobw topology` writes it (default: this machine)");
  command.option_defaults()->always_capture_default();  // the help shows them
  add_shape_options(command, options->spec.shape);
  command.add_option("--updates", options->spec.updates, "Updates to simulate");
  const auto times = [&](const char* name, std::vector<std::string>& value, const char* text) {
    command.add_option(name, value, text)->delimiter(',')->allow_extra_args(false);
  };
  times("--forward", options->forward, "Time of a forward: one value, or one per stage (1ms,2ms,1ms)");
  times("--backward", options->backward, "Time of a backward, in the same form");
  times("--step", options->step, "Time of an optimizer step on the compute thread");
  times("--prediction", options->predict, "Time of a prediction on the compute thread");
  times("--reduce", options->reduce, "Time of an all-reduce over replicas");
  command
      .add_option("--activation-bytes", options->activation_bytes,
                  "Bytes that a microbatch sends to the next stage, and back")
      ->default_str("");
  command.add_option("--bandwidth", options->bandwidth,
                     "Bandwidth of each link, in each direction (default: unlimited)");
  command.add_option("--latency", options->latency, "Latency of each link");
  command.add_option("--trace", options->trace,
                     "Write the times of every instruction to this file, for ui.perfetto.dev");
  add_color_option(command, options->color);
  add_json_flag(command, options->json);
  command.callback([options] { run(*options); });
}

}  // namespace twobw::cli
