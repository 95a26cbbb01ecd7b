// How the processes of a run reach a DecidedRun. Rank 0 hears of all devices, plans where it is asked to,
// chooses the checkpoint and measures for an open split. It proposes the run to the others; each reads its
// part of the checkpoint, and where any of them finds damage the one before it is proposed.
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

// Throws InputError, in every process the same, where the workers cannot be shared evenly. Not with plan:
// auto, which sees to it.
void check_share(const Config& config, const transport::Processes& processes);

// Collective: rank 0 gets the devices of all hosts, by rank, the others nothing.
std::vector<runtime::HostDevices> gather_hosts(transport::Processes& processes);

struct Decision {
  DecidedRun run;
  runtime::Setup setup;                               // loaded for it
  std::vector<runtime::HostDevices> hosts;            // of the processes, by rank; empty where there is one
  std::optional<ResumePoint> resume;                  // that all processes have read; nothing: a new run
  std::shared_ptr<const runtime::Restored> restored;  // the tensors of the stages here
  std::optional<measure::Forecast> forecast;          // where it was planned now
  nlohmann::ordered_json planned_for;                 // plan_cache.h; null: nothing is planned
};

// On rank 0, or alone, where `processes` is null. `say` gets a line at a time. Throws InputError.
Decision decide_run(const Config& asked, bool record_events, transport::Processes* processes,
                    const std::function<void(const std::string& line)>& say);
// On rank 0: the others may load and start the run.
void start_others(transport::Processes& processes);

struct Assignment {
  DecidedRun run;
  std::shared_ptr<const runtime::Restored> restored;
};
// On the other ranks: takes part until rank 0 starts the run. `plans`: whether rank 0 plans it, for which
// links are measured. Throws InputError where a checkpoint is not the one that rank 0 has.
Assignment await_decision(transport::Processes& processes, bool plans);

}  // namespace twobw::train
