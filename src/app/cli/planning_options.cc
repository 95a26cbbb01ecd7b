#include "app/cli/planning_options.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "core/base/error.h"
#include "core/base/gpu_name.h"
#include "planning/host/machine.h"
#include "planning/planner/costs/cost_tables.h"
#include "planning/planner/search/configuration.h"

namespace twobw::cli {
namespace {

// The file's, else this machine.
planner::Cluster choose_cluster(const Config& config, const std::string& path,
                                const std::optional<planner::Profile>& profile) {
  if (!path.empty()) return planner::load_cluster(path);
  if (!profile && !config.devices.empty() && names_gpu(config.devices.front()))
    fail_input("devices names GPUs; --profile or --cluster must describe them");
  return measure::available_cluster(config.devices, profile);
}

}  // namespace

planner::Problem make_problem(const Config& config, const ProblemFiles& files, std::optional<int> batch,
                              std::optional<int> microbatch) {
  std::optional<planner::Profile> profile;
  if (!files.profile.empty()) profile = planner::load_profile(files.profile);
  const int sequences = batch.value_or(config.pipeline.batch());
  const planner::Cluster cluster = choose_cluster(config, files.cluster, profile);
  auto costs =
      profile ? planner::measured_tables(config, cluster, *profile)
              : planner::modelled_tables(config, cluster, planner::usual_microbatches(sequences, microbatch));
  planner::Problem problem = planner::problem_of(config, cluster, std::move(costs));
  problem.batch = sequences;
  return problem;
}

void add_shape_options(CLI::App& command, PipelineShape& shape) {
  command.add_option("--stages", shape.stages, "Stages, d");
  command.add_option("--microbatches", shape.microbatches, "Microbatches per update, m");
  command.add_option("--extra", shape.extra, "Extra microbatches in flight, e");
  command.add_flag("--predict,!--no-predict", shape.predict,
                   "2bw: compute on predicted weights (default), or on delayed ones as in the paper");
  command.add_option("--step-slack", shape.step_slack,
                     "2bw: microbatches by which the switch to the true weights of a batch is delayed");
  command.add_flag("!--one-gradient", shape.double_buffer_gradients,
                   "2bw: one gradient buffer per stage, and a stall, instead of two");
  command.add_flag("--defer-tied-update", shape.defer_tied_update,
                   "2bw: update tied weights later, to hide their exchange over a slow link");
}

void check_forwards(const schedule::Spec& spec, std::int64_t most) {
  const PipelineShape& shape = spec.shape;
  const std::int64_t of_update = std::int64_t{shape.workers()} * shape.microbatches;
  if (spec.updates <= most / of_update) return;
  fail_input(
      "{} stages x {} replicas x {} microbatches x {} updates are too many forwards; at most {} are allowed",
      shape.stages, shape.replicas, shape.microbatches, spec.updates, most);
}

void add_color_option(CLI::App& command, std::string& choice) {
  command.add_option("--color", choice, "Color by weight version")
      ->check(CLI::IsMember({"auto", "always", "never"}));
}

bool wants_color(const std::string& choice) {
  if (choice != "auto") return choice == "always";
  return isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
}

std::int64_t terminal_columns() {
  winsize size{};
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

}  // namespace twobw::cli
