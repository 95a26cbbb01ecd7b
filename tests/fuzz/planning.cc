// Inputs of a plan: the configuration of a run, the cluster, and profile.json.
#include "core/base/config.h"
#include "planning/planner/costs/profile.h"
#include "planning/planner/hardware/cluster.h"
#include "tests/fuzz/target.h"

namespace twobw::fuzz {

void read_config(std::string_view input) {
  const std::string written = to_yaml(config_from_text(std::string(input), "x.yaml"));
  if (to_yaml(config_from_text(written, "x.yaml, written again")) != written)
    fail("a configuration reads back differently");
}

void read_cluster(std::string_view input) {
  const planner::Cluster cluster = planner::parse_cluster(std::string(input), "cluster.yaml");
  if (cluster.device_count() < 1) fail("a cluster without devices");
  planner::to_yaml(cluster);
}

void read_profile(std::string_view input) {
  const planner::Profile profile = planner::parse_profile(std::string(input), "profile.json");
  planner::costs_of(profile, profile.layers);
  planner::parse_profile(planner::to_json(profile), "profile.json, written again");
}

}  // namespace twobw::fuzz
