// How the processes of a run agree on a DecidedRun. Rank 0 gathers all devices, plans if plan is auto,
// chooses the checkpoint and measures for an open split. It proposes the run to the others, which read their
// parts of the checkpoint. If any finds damage, rank 0 proposes the checkpoint before it.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/measure/forecast.h"
#include "app/train/decided_run.h"
#include "app/train/resume.h"
#include "core/base/config.h"
#include "engine/runtime/process_devices.h"
#include "engine/runtime/setup.h"
#include "engine/runtime/snapshot.h"
#include "engine/transport/processes.h"

namespace twobw::train {

// Throws the same InputError in every process if the workers cannot be shared evenly. Checks nothing with
// plan: auto, which shares them evenly.
void check_share(const Config& config, const transport::Processes& processes);

// Collective: rank 0 gets the devices of all hosts, by rank; the others get none.
std::vector<runtime::HostDevices> gather_hosts(transport::Processes& processes);

struct Decision {
  DecidedRun run;
  runtime::Setup setup;                               // loaded for it
  std::vector<runtime::HostDevices> hosts;            // by rank; empty for one process
  std::optional<ResumePoint> resume;                  // read by all processes; nothing: a new run
  std::shared_ptr<const runtime::Restored> restored;  // the tensors of the local stages
  std::optional<measure::Forecast> forecast;          // if it was planned now
  nlohmann::ordered_json planned_for;                 // plan_cache.h; null without a plan
};

// On rank 0, or alone with `processes` null. `say` gets one line at a time. Throws InputError.
Decision decide_run(const Config& asked, bool record_events, transport::Processes* processes,
                    const std::function<void(const std::string& line)>& say);
// On rank 0: lets the others load and start the run.
void start_others(transport::Processes& processes);

struct Assignment {
  DecidedRun run;
  std::shared_ptr<const runtime::Restored> restored;
};
// On the other ranks: takes part until rank 0 starts the run. `plans`: whether rank 0 plans the run, which
// needs links measured. Throws InputError if a checkpoint differs from rank 0's.
Assignment await_decision(transport::Processes& processes, bool plans);

}  // namespace twobw::train
