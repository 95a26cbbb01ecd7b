#include <fmt/format.h>

#include "app/cli/topology.h"
#include "app/measure/found_cluster.h"
#include "app/rendezvous/join.h"
#include "app/train/run_plan.h"
#include "core/base/text_file.h"
#include "engine/control/agreement.h"
#include "engine/device/cpu.h"
#include "engine/runtime/process_devices.h"
#include "engine/runtime/process_gpus.h"
#include "engine/transport/processes.h"

namespace twobw::cli {
namespace {

// None: a run would compute on cores.
std::vector<GpuSlice> gpus_of(const Config& config, const std::vector<runtime::HostDevices>& hosts) {
  std::vector<GpuSlice> gpus;
  if (hosts.empty() || !runtime::choose_devices(config, hosts).gpus) return gpus;
  for (const std::string& name : runtime::devices_to_plan_for(config, hosts))
    gpus.push_back(parse_gpu(name).front());
  return gpus;
}

}  // namespace

void describe_hosts(const launch::World& world, const Config& config, const std::string& output) {
  device::initialize();
  const control::Facts facts = {{"the command", "topology"}, {"--output", output}};
  const auto processes = rendezvous::join(world, config.network, facts);
  transport::abort_on_failure(processes.get(), [&] {
    if (world.rank == 0 && !output.empty()) check_writable("--output", output);
    const std::vector<runtime::HostDevices> hosts = train::gather_hosts(*processes);
    const measure::FoundCluster found = measure::find_cluster(*processes, hosts, {}, gpus_of(config, hosts));
    if (world.rank == 0) {
      const std::string text = measure::describe(found);
      if (output.empty()) {
        fmt::print("{}", text);
      } else {
        write_text(output, text);
        const int devices = measure::cluster_of(found).device_count();
        fmt::print("{}\n{} device{} on {} host{} written to {}\n", measure::table_of(found), devices,
                   devices == 1 ? "" : "s", found.hosts.size(), found.hosts.size() == 1 ? "" : "s", output);
      }
    }
    processes->control().leave();
  });
}

}  // namespace twobw::cli
