// plan: auto. Measures the model here, plans the run, and compares the forecast with the run.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/measure/links.h"
#include "core/base/config.h"
#include "planning/planner/costs/plan.h"
#include "planning/planner/costs/profile.h"
#include "planning/planner/hardware/cluster.h"
#include "planning/planner/search/preference.h"

namespace twobw::measure {

// The devices of several processes, process by process, equally many each (engine/runtime/process_devices.h).
// Those of this process, the first, are measured and stand for all.
struct DevicesOfProcesses {
  std::vector<std::string> names;  // empty for one process: the configuration names them
  std::vector<std::string> hosts;  // by rank, from hosts_of()
  std::vector<ProcessLink> links;  // measured

  int processes() const { return static_cast<int>(hosts.size()); }
  int each() const { return static_cast<int>(names.size() / hosts.size()); }
};

// The devices of one process, or the first `count` of them.
std::vector<std::string> devices_of(const DevicesOfProcesses& shared, int rank, std::ptrdiff_t count = -1);

// The first GPU of each process, by rank; empty on cores.
std::vector<GpuSlice> first_gpus(const DevicesOfProcesses& shared);

// The cluster of the workers if every process has equally many, and the node of every rank.
struct SharedCluster {
  planner::Cluster cluster;
  std::vector<int> nodes;  // by rank
};

// `each` devices per process, all like those of `own`, the cluster of one process. Nodes are hosts, so the
// planner's two links are those between processes (or workers, if each host has one process) and between
// hosts. On a single host, processes with several workers are the nodes.
SharedCluster shared_cluster(const planner::Cluster& own, const DevicesOfProcesses& shared, int each);

// A plan, and the problem with its shared cluster.
struct PlacedPlan {
  planner::Problem problem;
  planner::Plan plan;
};

// The best plan for each number of workers per process and of replicas, with workers placed by rank
// (engine/runtime/rank_map.h). The cluster of `problem` describes one process.
std::vector<PlacedPlan> plans_to_share(const planner::Problem& problem,
                                       const planner::Preferences& preferences,
                                       const DevicesOfProcesses& shared);

// A line per measured kind of link.
std::vector<std::string> describe_links(const DevicesOfProcesses& shared);

struct Forecast {
  Config config;             // with the plan's choices
  planner::Plan plan;        // for its devices, or this machine's cores
  planner::Profile profile;  // of the measurement
};

// Plans a run. Near-equal plans are decided by trials, but in several processes by the model. `say` prints a
// line. Throws InputError if nothing fits.
Forecast plan_run(const Config& config, const std::function<void(const std::string&)>& say,
                  const DevicesOfProcesses& devices = {});

// Forecast, measurement and ratio for the throughput and each stage's memory terms. `summary`: the run's.
nlohmann::ordered_json compare(const planner::Plan& plan, const nlohmann::ordered_json& summary);

// Lines that describe the comparison.
std::vector<std::string> describe_comparison(const nlohmann::ordered_json& comparison);

}  // namespace twobw::measure
