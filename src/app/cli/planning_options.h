// Options and inputs that several of `plan`, `simulate`, `schedule` and `topology` take.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "core/base/config.h"
#include "core/launch/world.h"
#include "core/schedule/spec.h"
#include "planning/planner/costs/plan.h"

namespace twobw::cli {

struct ProblemFiles {
  std::string cluster;  // empty: this machine
  std::string profile;  // empty: times are modeled from the devices' figures
};

// The planner's problem for a configuration. `batch`: the configuration's own, if nothing. `microbatch`: the
// one size wanted, if any.
planner::Problem make_problem(const Config& config, const ProblemFiles& files, std::optional<int> batch,
                              std::optional<int> microbatch);

// A schedule by its letters. `shape`, whose values are the defaults, outlives the command.
void add_shape_options(CLI::App& command, PipelineShape& shape);

// Throws InputError for more forwards than `most`.
void check_forwards(const schedule::Spec& spec, std::int64_t most);

void add_color_option(CLI::App& command, std::string& choice);

// `choice` is "always", "never" or "auto": on a terminal, unless NO_COLOR is set.
bool wants_color(const std::string& choice);

// 0 if standard output is not a terminal.
std::int64_t terminal_columns();

// All of `topology`. `describe_hosts` is called in every process of a launcher: the first one writes the
// cluster to `output`, or prints it if that is empty. Null in `twobw`, which is never one of several.
using DescribeHosts = void (*)(const launch::World& world, const Config& config, const std::string& output);
void add_topology_options(CLI::App& command, int& exit_code, DescribeHosts describe_hosts);

}  // namespace twobw::cli
