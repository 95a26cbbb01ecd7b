#include "planning/host/local_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/gpu_name.h"
#include "planning/planner/costs/profiled_cluster.h"

namespace twobw::measure {

planner::Cluster cluster_of(const device::Machine& machine) {
  // Rounds to the precision of the measurements.
  constexpr double kMiB = 1 << 20;
  const auto rounded = [](double rate) { return std::max(1.0, std::round(rate / 1e8)) * 1e8; };
  planner::DeviceKind core = planner::known_device("CPU core");
  core.memory = std::floor(machine.memory / machine.cores / kMiB) * kMiB;
  core.memory_bandwidth = rounded(2 * machine.copy_bandwidth);  // a copy reads and writes
  planner::Node node{.name = "this-machine", .islands = {{.kind = 0, .count = machine.cores}}};
  node.link = {.latency = std::round(machine.handover * 1e7) / 1e7,
               .bandwidth = rounded(machine.copy_bandwidth)};
  return {.name = "this machine", .kinds = {core}, .nodes = {node}, .network = planner::kNoLink};
}

planner::Cluster available_cluster(const std::vector<std::string>& devices,
                                   const std::optional<planner::Profile>& profile) {
  if (!devices.empty() && profile)
    return planner::profiled_cluster(*profile, static_cast<int>(single_devices(devices).size()));
  planner::Cluster cluster = cluster_of(device::measure_machine());
  if (profile && profile->links.contains("local")) cluster.nodes[0].link = profile->links.at("local");
  return cluster;
}

std::string describe(const device::Machine& machine) {
  return fmt::format(
      "# Written by `twobw topology`: {} core{}{}.\n"
      "# memory            found: that of the machine, or of its container, in equal shares\n"
      "# tflops            assumed: that of a common server core; `twobw profile` measures real layers\n"
      "# memory_bandwidth  measured: what each core reads and writes while all of them copy\n"
      "# efficiency        assumed, as is the overhead\n"
      "# link              measured: the rate of such a copy, and the time until a waiting thread answers\n"
      "{}",
      machine.cores, machine.cores == 1 ? "" : "s",
      machine.processor.empty() ? "" : " of " + machine.processor, planner::to_yaml(cluster_of(machine)));
}

}  // namespace twobw::measure
