// twobw simulate: how fast a schedule would run, and what its stages would wait for.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/terminal.h"
#include "planner/text_table.h"
#include "planner/units.h"
#include "simulator/simulate.h"
#include "simulator/timeline.h"
#include "telemetry/trace.h"

namespace twobw::cli {
namespace {

using schedule::Spec;
using simulator::Result;
using simulator::StageUse;
using simulator::System;

struct SimulateOptions {
  std::string kind = "2bw";
  Spec spec = {.stages = 4, .microbatches = 8, .updates = 3};
  // As typed: one for all stages, or one a stage.
  std::vector<std::string> forward = {"1"}, backward = {"2"}, step = {"0"}, reduce = {"0"};
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
    times.push_back(parse(option, texts[texts.size() == 1 ? 0 : r], planner::parse_seconds,
                          "a time of at least 0, such as 0.5 or 3ms"));
  }
  return times;
}

System system_of(const SimulateOptions& options) {
  const int d = options.spec.stages;
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
  fill("--reduce", options.reduce, &simulator::StageTimes::reduce);

  const double bytes = parse("--activation-bytes", options.activation_bytes, planner::parse_bytes,
                             "a size of at least 0, such as 4MiB");
  const double latency =
      parse("--latency", options.latency, planner::parse_seconds, "a time of at least 0, such as 5us");
  double bandwidth = std::numeric_limits<double>::infinity();
  if (!options.bandwidth.empty()) {
    const char* allowed = "a rate above 0, such as 25Gbit/s";
    bandwidth = parse("--bandwidth", options.bandwidth, planner::parse_rate, allowed);
    if (bandwidth == 0) fail_input("--bandwidth is '{}'; allowed: {}", options.bandwidth, allowed);
  }
  for (int r = 0; r + 1 < d; ++r) {
    system.boundaries.push_back({bytes, bytes, 2 * r, 2 * r + 1});
    system.channels.insert(system.channels.end(), 2, {.latency = latency, .bandwidth = bandwidth});
  }
  return system;
}

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
  return fmt::format("{}: d={} stages, m={} microbatches, e={} extra", schedule::name(spec.kind), spec.stages,
                     spec.microbatches, spec.extra);
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

std::string to_json(const Spec& spec, const Result& result) {
  nlohmann::ordered_json json = {{"modelled", true},
                                 {"schedule", schedule::name(spec.kind)},
                                 {"stages", spec.stages},
                                 {"microbatches", spec.microbatches},
                                 {"extra", spec.extra},
                                 {"updates", spec.updates},
                                 {"update_seconds", result.update_seconds},
                                 {"microbatches_per_s", spec.microbatches / result.update_seconds},
                                 {"utilisation", mean_utilisation(result)},
                                 {"total_seconds", result.total_seconds}};
  for (const StageUse& stage : result.stages) {
    nlohmann::ordered_json& entry = json["seconds_of_an_update"].emplace_back();
    for (const Column& column : kColumns) entry[column.key] = stage.*column.field;
    entry["utilisation"] = stage.utilisation;
  }
  return json.dump(2) + "\n";
}

std::string in_percent(double part, double whole) {
  return part == 0 ? "-" : fmt::format("{:.1f}%", 100 * part / whole);
}

void print_table(const Spec& spec, const Result& result) {
  fmt::print("{}\n", describe(spec));
  fmt::print("modelled, in the steady state: {} an update, {:.4g} microbatches/s, {:.1f}% busy\n",
             duration(result.update_seconds), spec.microbatches / result.update_seconds,
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
  planner::TextTable table(head);
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

// The start of the run, as much of it as can be told apart in a line.
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
                 result.events, spec.stages,
                 {.seconds = seconds, .columns = static_cast<int>(columns), .color = wants_color(color)}));
}

void run(SimulateOptions options) {
  Spec& spec = options.spec;
  spec.kind = schedule::parse_kind(options.kind);
  schedule::validate(spec);
  const System system = system_of(options);
  const bool events = !options.trace.empty() || (!options.json && terminal_columns() > 0);
  const Result result = simulator::simulate(spec, system, events);
  if (result.update_seconds <= 0) fail_input("every time is 0; give --forward or --backward a time");
  if (!options.trace.empty()) telemetry::write_trace(options.trace, result.events);
  if (options.json) {
    fmt::print("{}", to_json(spec, result));
    return;
  }
  print_table(spec, result);
  print_timeline(spec, result, options.color);
}

}  // namespace

void add_simulate(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* command =
      app.add_subcommand("simulate", "Model how fast a schedule runs and what its stages wait for");
  command->add_option("schedule", options->kind, "sequential, gpipe, flush, 2bw or stash")
      ->capture_default_str();
  command->add_option("--stages", options->spec.stages, "d, the stages")->capture_default_str();
  command->add_option("--microbatches", options->spec.microbatches, "m, the microbatches of an update")
      ->capture_default_str();
  command->add_option("--extra", options->spec.extra, "e, extra microbatches in flight")
      ->capture_default_str();
  command->add_option("--updates", options->spec.updates, "Updates of the run that is traced")
      ->capture_default_str();
  const auto times = [&](const char* name, std::vector<std::string>& value, const char* text) {
    command->add_option(name, value, text)->delimiter(',')->allow_extra_args(false)->capture_default_str();
  };
  times("--forward", options->forward, "Time of a forward: one, or one a stage (1ms,2ms,1ms)");
  times("--backward", options->backward, "Time of a backward, likewise");
  times("--step", options->step, "Time of an update on the compute thread, likewise");
  times("--reduce", options->reduce, "Time of an update's all-reduce over replicas, likewise");
  command->add_option("--activation-bytes", options->activation_bytes,
                      "What a microbatch sends to the next stage, and back");
  command->add_option("--bandwidth", options->bandwidth,
                      "Of each link, in each direction (default: unlimited)");
  command->add_option("--latency", options->latency, "Of each link")->capture_default_str();
  command->add_option("--trace", options->trace,
                      "Write every instruction's times to this file, for Perfetto or chrome://tracing");
  command->add_option("--color", options->color, "Colour by weight version")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON instead");
  command->callback([options, &exit_code] {
    run(*options);
    exit_code = 0;
  });
}

}  // namespace twobw::cli
