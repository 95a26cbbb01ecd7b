// Options and inputs shared by `plan`, `simulate`, `schedule` and `topology`.
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

// The planner's problem for a configuration. `batch`: default that of the configuration. `microbatch`: the
// only size to consider, if any.
planner::Problem make_problem(const Config& config, const ProblemFiles& files, std::optional<int> batch,
                              std::optional<int> microbatch);

// Options for the shape of a schedule, for a command that captures defaults. `shape` has them and must
// outlive the command.
void add_shape_options(CLI::App& command, PipelineShape& shape);

// Throws InputError for more forwards than `most`.
void check_forwards(const schedule::Spec& spec, std::int64_t most);

void add_color_option(CLI::App& command, std::string& choice);

// `choice` is "always", "never" or "auto": on a terminal, unless NO_COLOR is set.
bool wants_color(const std::string& choice);

// 0 if standard output is not a terminal.
std::int64_t terminal_columns();

// A cluster as `topology` writes it, and as it summarizes that on the terminal.
struct ClusterText {
  std::string yaml, summary;
};

// All of `topology`. `describe_hosts` is collective: every process of a launcher calls it, and rank 0 has the
// result. `output` is the file that will be written; empty: none. Null in `twobw`, which is never one of
// several.
using DescribeHosts = ClusterText (*)(const launch::World& world, const Config& config,
                                      const std::string& output);
void add_topology_options(CLI::App& command, DescribeHosts describe_hosts);

}  // namespace twobw::cli
