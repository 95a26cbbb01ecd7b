#include "cli/problem.h"

#include "device/cores.h"
#include "device/machine.h"
#include "planner/configuration.h"
#include "planner/cost_tables.h"

namespace twobw::cli {
namespace {

// The file's, else this machine; there the profile knows the link between cores best.
planner::Cluster choose_cluster(const std::string& path, const std::optional<planner::Profile>& profile) {
  if (!path.empty()) return planner::load_cluster(path);
  planner::Cluster cluster = device::cluster_of(device::measure_machine());
  if (profile && profile->links.contains("local")) cluster.nodes[0].link = profile->links.at("local");
  return cluster;
}

}  // namespace

planner::Problem make_problem(const Config& config, const ProblemFiles& files, std::optional<int> batch,
                              std::optional<int> microbatch) {
  std::optional<planner::Profile> profile;
  if (!files.profile.empty()) profile = planner::load_profile(files.profile);
  const PipelineConfig& pipeline = config.pipeline;
  const int sequences = batch.value_or(pipeline.microbatch * pipeline.microbatches * pipeline.replicas);
  const planner::Cluster cluster = choose_cluster(files.cluster, profile);
  auto costs =
      profile ? planner::measured_tables(config, cluster, *profile)
              : planner::modelled_tables(config, cluster, planner::usual_microbatches(sequences, microbatch));
  planner::Problem problem = planner::problem_of(config, cluster, std::move(costs));
  problem.batch = sequences;
  return problem;
}

std::vector<std::string> local_devices(const planner::Cluster& cluster) {
  std::vector<std::string> names = device::core_names();
  const bool cores =
      cluster.nodes.size() == 1 && cluster.kinds.size() == 1 && cluster.kinds[0].name == "CPU core";
  if (!cores || cluster.device_count() > std::ssize(names)) return {};
  return names;
}

}  // namespace twobw::cli
