// The hardware to plan for.
#include "planning/planner/hardware/cluster.h"

#include "tests/fuzz/target.h"

namespace twobw::fuzz {

void read_cluster(std::string_view input) {
  const planner::Cluster cluster = planner::parse_cluster(std::string(input), "cluster.yaml");
  if (cluster.device_count() < 1) fail("a cluster without devices");
  planner::to_yaml(cluster);
}

}  // namespace twobw::fuzz
