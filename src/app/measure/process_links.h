// The links between the processes of a run, measured by all of them together.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/measure/host_rounds.h"
#include "app/measure/wire_link.h"
#include "core/base/gpu_name.h"
#include "engine/runtime/process_devices.h"
#include "engine/transport/processes.h"
#include "planning/planner/hardware/cluster.h"

namespace twobw::measure {

struct ProcessLink {
  RankPair ranks;
  WireLink link;
};

// Rounds (host_rounds.h) follow one another until the time is over. With many hosts some pairs are left out,
// but every host is measured: with another in every round.
struct LinkBudget {
  double round = 2;  // seconds, at most
  double all = 600;
  double timeout = 60;  // of GPUs: to join two, which is not counted above, and of any wait
};
// For a run that is about to begin.
inline constexpr LinkBudget kShortLinkBudget{.round = 0.5, .all = 3};

// Tells hosts apart. Those of one machine that have names of their own (containers) are joined by a network
// too.
std::vector<std::string> hosts_of(const std::vector<runtime::HostDevices>& processes);

// Called by all processes. Rank 0 says between which hosts, by rank, and how long it may take; it gets all
// links, the others none. `gpus`: one of each process, by rank, which the links are between (gpu_links.h);
// none: between processes on cores. `now`: of this process; GPUs have their own. Throws RunError.
std::vector<ProcessLink> measure_links(transport::Processes& processes, const std::vector<std::string>& hosts,
                                       const LinkBudget& budget, const std::function<double()>& now,
                                       const std::vector<GpuSlice>& gpus = {});
// The others, and rank 0 where they are to go on without; by the clock.
void measure_links(transport::Processes& processes);
// Rank 0; by the clock.
std::vector<ProcessLink> measure_links(transport::Processes& processes, const std::vector<std::string>& hosts,
                                       const LinkBudget& budget, const std::vector<GpuSlice>& gpus = {});

// The links of processes of one host, and those of processes of two.
struct LinksByHost {
  std::vector<ProcessLink> inside, between;
};
LinksByHost links_by_host(const std::vector<ProcessLink>& links, const std::vector<std::string>& hosts);

// The one link that the planner counts with in place of all of them: as slow as the slowest, for a pipeline
// is. kNoLink for none.
planner::LinkSpec slowest(const std::vector<ProcessLink>& links);

}  // namespace twobw::measure
