#include "app/cli/problem.h"

#include "core/base/error.h"
#include "core/base/gpu_name.h"
#include "planning/host/cores.h"
#include "planning/host/local_cluster.h"
#include "planning/planner/costs/cost_tables.h"
#include "planning/planner/search/configuration.h"

namespace twobw::cli {
namespace {

// The file's, else this machine.
planner::Cluster choose_cluster(const Config& config, const std::string& path,
                                const std::optional<planner::Profile>& profile) {
  if (!path.empty()) return planner::load_cluster(path);
  if (!profile && !config.devices.empty() && names_gpu(config.devices.front()))
    fail_input("devices names GPUs; --profile or --cluster must say what they are");
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

}  // namespace twobw::cli
