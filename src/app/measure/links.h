// Links between the processes of a run, measured collectively, over the transports that training uses.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/measure/link_benchmark.h"
#include "core/base/gpu_name.h"
#include "engine/device/device.h"
#include "engine/runtime/process_devices.h"
#include "engine/transport/gpu_paths.h"
#include "engine/transport/processes.h"
#include "engine/transport/remote_link.h"
#include "engine/transport/wait_hub.h"
#include "planning/planner/hardware/cluster.h"

namespace twobw::measure {

struct RankPair {
  int asks = 0, answers = 0;  // the rank that measures, and its peer

  friend bool operator==(const RankPair&, const RankPair&) = default;
};

// The ranks of every host, ordered by the first. `hosts`: an id by rank.
std::vector<std::vector<int>> ranks_by_host(const std::vector<std::string>& hosts);

// Pairs to measure, in rounds without contention: first two processes of every host that has several, then a
// round-robin tournament between the first processes of all hosts.
std::vector<std::vector<RankPair>> rounds_of(const std::vector<std::string>& hosts);

// Links between GPUs of two processes, over NCCL with a notification through the host before every transfer,
// as in a pipeline (engine/transport/gpu_paths.h). Collective construction: it takes a pipeline's number, and
// must be destroyed before a pipeline is created.
class GpuLinks {
 public:
  using MakePaths = std::function<std::unique_ptr<transport::GpuPaths>(std::chrono::duration<double> timeout,
                                                                       transport::OnFailure on_failure)>;

  // `device`: a GPU of this process. `timeout`: seconds, to connect a pair and for any wait.
  GpuLinks(transport::Processes& processes, const device::Device& device, double timeout,
           const MakePaths& make_paths = transport::nccl_paths);
  ~GpuLinks() { processes_.detach(); }
  GpuLinks(const GpuLinks&) = delete;
  GpuLinks& operator=(const GpuLinks&) = delete;

  // Called once by both ranks of a pair; returns the link to the one that asks. Throws RunError.
  std::optional<WireLink> measure(const RankPair& pair, double seconds);

 private:
  std::optional<WireLink> measure_bound(const RankPair& pair, double seconds);
  transport::RemoteEnd join(transport::Wire& wire, int peer, bool sends);
  std::unique_ptr<transport::Wire> open(transport::RemoteEnd end, bool sends, const at::Device& device);
  void fail(const std::exception_ptr& failure);

  transport::Processes& processes_;
  device::Device device_;
  transport::WaitHub hub_;
  std::unique_ptr<transport::GpuPaths> paths_;
  int tag_ = 0;  // of activations and gradients
};

struct ProcessLink {
  RankPair ranks;
  WireLink link;
};

// Seconds. With many hosts the last rounds are dropped, but every round measures every host.
struct LinkBudget {
  double round = 2;  // at most
  double all = 600;
  double timeout = 60;  // GPUs: to connect a pair, not counted above, and for any wait
};
// Before a run.
inline constexpr LinkBudget kShortLinkBudget{.round = 0.5, .all = 3};

// The steady clock.
double steady_seconds();

// Host ids by rank. Containers of one machine with names of their own are separate hosts.
std::vector<std::string> hosts_of(const std::vector<runtime::HostDevices>& processes);

// Collective. Rank 0 passes hosts and budget (none: nothing is measured) and gets all links; the others get
// none. `gpus`: one per process, by rank, to measure between; empty: between cores. `now`: seconds of this
// process, by default the steady clock. Throws RunError.
std::vector<ProcessLink> measure_links(transport::Processes& processes,
                                       const std::vector<std::string>& hosts = {},
                                       const LinkBudget& budget = {}, const std::vector<GpuSlice>& gpus = {},
                                       const std::function<double()>& now = steady_seconds);

// Links inside hosts and between hosts.
struct LinksByHost {
  std::vector<ProcessLink> inside, between;
};
LinksByHost links_by_host(const std::vector<ProcessLink>& links, const std::vector<std::string>& hosts);

// The worst latency and bandwidth, which bound a pipeline; kNoLink for an empty list.
planner::LinkSpec slowest(const std::vector<ProcessLink>& links);

}  // namespace twobw::measure
