#include "planning/planner/costs/profiled_cluster.h"

namespace twobw::planner {

Cluster profiled_cluster(const Profile& profile, int count) {
  const auto link = profile.links.find("local");
  const Node node{.name = "this-machine",
                  .islands = {{.kind = 0, .count = count}},
                  .link = link == profile.links.end() ? kNoLink : link->second};
  return {.name = "this machine",
          .kinds = {{.name = profile.device, .memory = profile.device_memory}},
          .nodes = {node},
          .network = kNoLink};
}

}  // namespace twobw::planner
