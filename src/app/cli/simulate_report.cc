#include "app/cli/simulate_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "app/cli/terminal.h"
#include "core/base/text.h"
#include "core/base/text_table.h"
#include "core/simulator/timeline.h"
#include "planning/planner/report/report.h"

namespace twobw::cli {
namespace {

using schedule::Spec;
using simulator::Result;
using simulator::StageUse;

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
                     spec.shape.late_tie ? ", late tie" : "");
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

using Json = nlohmann::ordered_json;

Json to_json(const Spec& spec, const Result& result) {
  Json json = {{"modelled", true},
               {"schedule", schedule::name(spec.shape.schedule)},
               {"stages", spec.shape.stages},
               {"microbatches", spec.shape.microbatches},
               {"extra", spec.shape.extra},
               {"second_gradient", schedule::has_second_gradient(spec)},
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

// What else is known when a configuration is simulated.
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
                 result.events, spec.shape.stages,
                 {.seconds = seconds, .columns = static_cast<int>(columns), .color = wants_color(color)}));
}

}  // namespace

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

void print_simulation_json(const Spec& spec, const Result& result, const SimulatedPlan* simulated) {
  Json json = to_json(spec, result);
  if (simulated != nullptr) add_plan(json, *simulated);
  fmt::print("{}\n", json.dump(2));
}

}  // namespace twobw::cli
