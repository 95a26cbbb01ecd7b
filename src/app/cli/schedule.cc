// twobw schedule: draws a schedule, lists it, proves it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "app/cli/planning_options.h"
#include "app/cli/program.h"
#include "core/schedule/checker.h"
#include "core/schedule/draw/grid.h"

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

// Whether all properties hold.
bool print_check(const Spec& spec) {
  const schedule::Report report = schedule::check(spec);
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
  return report.ok();
}

void run_schedule(ScheduleOptions options, int& exit_code) {
  options.spec.shape.schedule = schedule::parse_kind(options.kind);
  schedule::validate(options.spec);
  constexpr std::int64_t kMostForwards = 1'000'000;  // in memory, or as lines
  check_forwards(options.spec, kMostForwards);
  if (options.list) print_lists(options.spec);
  if (options.check && !print_check(options.spec)) exit_code = 1;
  if (!options.list && !options.check) print_grid(options.spec, options.grid, options.color);
}

}  // namespace

void add_schedule(CLI::App& command, int& exit_code) {
  auto options = std::make_shared<ScheduleOptions>();
  command.add_option("kind", options->kind, "sequential, gpipe, flush, 2bw or stash")->capture_default_str();
  add_shape_options(command, options->spec.shape);
  command.add_option("--replicas", options->spec.shape.replicas, "w, the copies of the pipeline")
      ->capture_default_str();
  command.add_option("--updates", options->spec.updates, "Updates to run")->capture_default_str();
  command.add_option("--sync-updates", options->spec.sync_updates, "First updates under flush")
      ->capture_default_str();
  command
      .add_option("--evaluate-every", options->spec.evaluate_every,
                  "Evaluate every so many updates; 0: never")
      ->capture_default_str();
  command
      .add_option("--save-every", options->spec.save_every,
                  "Save a checkpoint every so many updates; 0: never")
      ->capture_default_str();
  command.add_option("--forward", options->grid.costs.forward, "Ticks of a forward")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command.add_option("--backward", options->grid.costs.backward, "Ticks of a backward")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command
      .add_option("--ticks", options->grid.ticks, "Draw only the first so many; 0: what the terminal holds")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  add_color_option(command, options->color);
  command.add_flag("--list", options->list, "Print the instructions instead");
  command.add_flag("--check", options->check, "Prove the instructions instead");
  command.callback([options, &exit_code] { run_schedule(*options, exit_code); });
}

}  // namespace twobw::cli
