// twobw schedule: draws, lists or checks a schedule.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "app/cli/json_output.h"
#include "app/cli/planning_options.h"
#include "app/cli/program.h"
#include "core/schedule/checker.h"
#include "core/schedule/draw/grid.h"
#include "core/schedule/execution.h"

namespace twobw::cli {
namespace {

using schedule::Spec;

struct ScheduleOptions {
  std::string kind = "2bw";
  Spec spec = {.shape = {.stages = 4, .microbatches = 4}, .updates = 3};
  schedule::GridOptions grid;
  std::string color = "auto";
  bool list = false;
  bool check = false;
  bool json = false;
};

void print_grid(const Spec& spec, schedule::GridOptions grid, const std::string& color) {
  grid.color = wants_color(color);
  const std::int64_t columns = terminal_columns();
  if (grid.ticks == 0 && columns > 0) {
    grid.ticks = schedule::ticks_that_fit(spec, grid, columns);
  }
  fmt::print("{}", schedule::draw(spec, grid));
}

void print_lists(const Spec& spec) {
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    fmt::print("stage {}\n", stage);
    for (const auto& instruction : schedule::instructions(spec, stage)) {
      fmt::print("  {}\n", schedule::describe(instruction));
    }
  }
}

void print_check(const schedule::Report& report) {
  for (const auto& finding : report.findings) {
    fmt::print("{:<7} {}: {}\n", finding.ok() ? "ok" : "failed", schedule::name(finding.property),
               schedule::sentence(finding.property));
    if (!finding.ok()) fmt::print("        {}\n", finding.problem);
  }
  fmt::print("\nmost held  in flight  weight versions  gradients\n");
  for (std::size_t stage = 0; stage < report.peaks.size(); ++stage) {
    const schedule::Peaks& peaks = report.peaks[stage];
    fmt::print("stage {:<3}  {:>9}  {:>15}  {:>9}\n", stage, peaks.in_flight, peaks.versions,
               peaks.gradient_buffers);
  }
}

// The instructions of a stage of the first replica, with their ticks in the grid.
Json to_json(const std::vector<schedule::Instruction>& instructions,
             const std::vector<schedule::Span>& times) {
  const auto known = [](std::int64_t number) { return number < 0 ? Json() : Json(number); };
  Json list = Json::array();
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    const schedule::Instruction& instruction = instructions[i];
    list.push_back({{"op", schedule::name(instruction.op)},
                    {"batch", instruction.batch},
                    {"microbatch", known(instruction.microbatch)},
                    {"version", known(instruction.version)},
                    {"predicted", instruction.predicted},
                    {"start", times[i].start},
                    {"end", times[i].end},
                    {"text", schedule::describe(instruction)}});
  }
  return list;
}

Json to_json(const Spec& spec, const schedule::Report& report, const schedule::Costs& costs, bool list) {
  const double ticks = schedule::steady_ticks_per_batch(spec, costs);
  const auto work = static_cast<double>(spec.shape.microbatches * (costs.forward + costs.backward));
  Json json = {{"schedule", schedule::name(spec.shape.schedule)},
               {"stages", spec.shape.stages},
               {"replicas", spec.shape.replicas},
               {"microbatches", spec.shape.microbatches},
               {"extra", spec.shape.extra},
               {"updates", spec.updates},
               {"ticks_per_batch", ticks},
               {"utilisation", work / ticks},
               {"ok", report.ok()}};
  for (const schedule::Finding& finding : report.findings) {
    json["check"].push_back({{"property", schedule::name(finding.property)},
                             {"meaning", schedule::sentence(finding.property)},
                             {"ok", finding.ok()},
                             {"problem", finding.problem}});
  }
  for (const schedule::Peaks& peaks : report.peaks) {
    json["most_held"].push_back({{"in_flight", peaks.in_flight},
                                 {"weight_versions", peaks.versions},
                                 {"gradients", peaks.gradient_buffers}});
  }
  if (!list) return json;
  const schedule::Lists lists = schedule::all_instructions(spec);
  const schedule::Execution execution = schedule::execute(lists, costs);
  for (std::size_t stage = 0; stage < lists.size(); ++stage)
    json["instructions"].push_back(to_json(lists[stage], execution.times[stage]));
  return json;
}

void run_schedule(ScheduleOptions options, int& exit_code) {
  options.spec.shape.schedule = schedule::parse_kind(options.kind);
  schedule::validate(options.spec);
  constexpr std::int64_t kMostForwards = 1'000'000;  // in memory, or as lines
  check_forwards(options.spec, kMostForwards);
  if (!options.list && !options.check && !options.json)
    return print_grid(options.spec, options.grid, options.color);
  if (options.list && !options.json) print_lists(options.spec);
  if (!options.check && !options.json) return;
  const schedule::Report report = schedule::check(options.spec);
  if (options.json) {
    print_json(to_json(options.spec, report, options.grid.costs, options.list));
  } else {
    print_check(report);
  }
  exit_code = report.ok() ? 0 : 1;
}

}  // namespace

void add_schedule(CLI::App& command, int& exit_code) {
  auto options = std::make_shared<ScheduleOptions>();
  command.option_defaults()->always_capture_default();  // the help shows them
  command.add_option("kind", options->kind, "sequential, gpipe, flush, 2bw or stash");
  add_shape_options(command, options->spec.shape);
  command.add_option("--replicas", options->spec.shape.replicas, "Replicas of the pipeline, w");
  command.add_option("--updates", options->spec.updates, "Updates to run");
  command.add_option("--sync-updates", options->spec.sync_updates, "Updates under flush at the start");
  command.add_option("--evaluate-every", options->spec.evaluate_every,
                     "Updates between evaluations; 0: never");
  command.add_option("--save-every", options->spec.save_every, "Updates between checkpoints; 0: never");
  command.add_option("--forward", options->grid.costs.forward, "Length of a forward, in ticks")
      ->check(CLI::Range(1, 100));
  command.add_option("--backward", options->grid.costs.backward, "Length of a backward, in ticks")
      ->check(CLI::Range(1, 100));
  command
      .add_option("--ticks", options->grid.ticks,
                  "Draw only the first ticks; 0: as many as the terminal holds")
      ->check(CLI::NonNegativeNumber);
  add_color_option(command, options->color);
  command.add_flag("--list", options->list, "Print the instructions instead");
  command.add_flag("--check", options->check,
                   "Check the instructions against the rules of the schedule instead");
  add_json_flag(command, options->json);
  command.callback([options, &exit_code] { run_schedule(*options, exit_code); });
}

}  // namespace twobw::cli
