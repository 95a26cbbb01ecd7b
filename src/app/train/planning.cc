#include "app/train/planning.h"

#include "app/measure/links.h"
#include "app/train/kept_plan.h"
#include "app/train/run_plan.h"
#include "engine/runtime/process_devices.h"

namespace twobw::train {
namespace {

measure::Forecast plan_now(const Config& asked, const std::string& resumed_from,
                           const std::vector<runtime::HostDevices>& hosts, transport::Processes* processes,
                           const std::function<void(const std::string& line)>& say) {
  const runtime::DeviceChoice devices =
      runtime::choose_devices(asked, hosts.empty() ? std::vector{runtime::host_devices()} : hosts);
  if (!devices.reason.empty()) say(devices.reason);
  measure::DevicesOfProcesses shared;
  if (processes != nullptr) {
    measure::LinkBudget budget = measure::kShortLinkBudget;
    budget.timeout = asked.pipeline.timeout;
    shared = {.names = runtime::devices_to_plan_for(asked, hosts), .hosts = measure::hosts_of(hosts)};
    shared.links = measure::measure_links(*processes, shared.hosts, budget, measure::first_gpus(shared));
  }
  return measure::plan_run(computed_with(asked, resumed_from), say, shared);
}

}  // namespace

Planning plan_if_asked(const Config& asked, const std::optional<ResumePoint>& newest,
                       const std::vector<runtime::HostDevices>& hosts, transport::Processes* processes,
                       const std::function<void(const std::string& line)>& say) {
  Planning planning{.config = asked, .forecast = {}, .planned_for = {}};
  if (asked.plan != "auto") return planning;
  planning.planned_for =
      planned_for(asked, processes != nullptr ? hosts : std::vector{runtime::host_devices()});
  const std::optional<Config> kept =
      newest ? with_kept_plan(asked, planning.planned_for, say) : std::optional<Config>();
  if (kept) {
    say("the plan of the run is kept: it was made for the same configuration and devices");
    if (processes != nullptr) measure::measure_links(*processes);
    planning.config = *kept;
  } else {
    planning.forecast = plan_now(asked, newest ? newest->folder : "", hosts, processes, say);
    planning.config = planning.forecast->config;
  }
  planning.config.model.from = asked.model.from;
  planning.config.data.tokenizer = asked.data.tokenizer;
  return planning;
}

}  // namespace twobw::train
