// What rank 0 decides on for a run in several processes, and the others prepare the same run from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/config.h"
#include "core/schedule/spec.h"
#include "engine/device/device.h"
#include "engine/runtime/process_devices.h"
#include "engine/runtime/setup.h"
#include "engine/transport/processes.h"

namespace twobw::train {

struct RunPlan {
  std::string config;                   // as YAML, with its split
  std::vector<device::Device> devices;  // of each worker, by its number
  std::string checkpoint;               // the folder it goes on from; empty: it begins anew
  // Of the schedule, what does not follow from the configuration alone.
  std::int64_t save_every = 0;
  bool save_last = false;
  std::int64_t first_batch = 0, sync_updates = 0;
  bool begins_drained = false;
  bool record_events = false;
};

std::string to_bytes(const RunPlan& plan);
RunPlan to_run_plan(std::string_view bytes);

// On rank 0. `resolved`: the configuration with all that is decided.
RunPlan plan_of(const Config& resolved, const runtime::Setup& setup, const std::string& checkpoint,
                bool record_events);
// Elsewhere. Throws InputError for what this process cannot read.
runtime::Setup prepare(const RunPlan& plan);

// The configuration that is computed with: a run that is resumed from `checkpoint` (empty: a new one) has the
// weights and the tokenizer of that, and what it started from may be gone.
Config computed_with(Config config, const std::string& checkpoint);

// Throws InputError, in every process the same, where the workers cannot be shared evenly. Not with plan:
// auto, which sees to it.
void check_share(const Config& config, const transport::Processes& processes);
// Both are called by all processes, in this order. Rank 0 hears of all hosts, by rank; the others get
// nothing.
std::vector<runtime::HostDevices> gather_hosts(transport::Processes& processes);
void send_plan(transport::Processes& processes, const RunPlan& plan);  // on rank 0
RunPlan receive_plan(transport::Processes& processes);                 // elsewhere

}  // namespace twobw::train
