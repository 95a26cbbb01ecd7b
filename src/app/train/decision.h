// A run as one value, which rank 0 decides and every rank executes. Rank 0 gathers all devices, plans if plan
// is auto, chooses the checkpoint and measures for an open split. It proposes the run to the others, which
// read their parts of the checkpoint. If any finds damage, rank 0 proposes the checkpoint before it.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/measure/forecast.h"
#include "app/train/resume.h"
#include "core/base/config.h"
#include "core/schedule/spec.h"
#include "engine/device/device.h"
#include "engine/runtime/process_devices.h"
#include "engine/runtime/setup.h"
#include "engine/runtime/snapshot.h"
#include "engine/transport/processes.h"

namespace twobw::train {

// The checkpoint that a run continues from.
struct CheckpointId {
  std::string folder;
  std::string manifest;  // its checksum

  static void fields(auto& self, auto&& visit) { visit(self.folder, self.manifest); }
};

struct DecidedRun {
  Config config;                        // with the split; `devices` as the user set them
  schedule::Spec spec;                  // with the split and the first batch
  std::vector<device::Device> devices;  // by worker (core/schedule/spec.h)
  std::optional<CheckpointId> resume;   // nothing: a new run
  bool record_events = false;

  std::vector<int> stages_of(int rank, int ranks) const;  // with workers on this rank
};

// Pure. `config`: as given or as planned. `layers`: of its model.
DecidedRun decide(Config config, const std::vector<int>& split, const std::vector<device::Device>& devices,
                  const std::optional<ResumePoint>& resume, const architecture::Model& layers);

std::string encode_run(const DecidedRun& run);
DecidedRun decode_run(std::string_view bytes);  // throws InputError

// The configuration with the weights and the tokenizer of `checkpoint`, the folder of a resumed run (empty: a
// new run): model.from may be gone.
Config computed_with(Config config, const std::string& checkpoint);

// Loads model, data and devices of the run. Throws InputError for files that this process cannot read.
runtime::Setup load(const DecidedRun& run);

// Throws the same InputError in every process if the workers cannot be shared evenly. Checks nothing with
// plan: auto, which shares them evenly.
void check_share(const Config& config, const transport::Processes& processes);

// Collective: rank 0 gets the devices of all hosts, by rank; the others get none.
std::vector<runtime::HostDevices> gather_hosts(transport::Processes& processes);

// The rank of the process that has a worker. `hosts`: by rank.
int process_of(int worker, const PipelineShape& shape, const std::vector<runtime::HostDevices>& hosts);
// " of node3 (process 1)"; empty for one process.
std::string where_is(int worker, const PipelineShape& shape, const std::vector<runtime::HostDevices>& hosts);

struct Decision {
  DecidedRun run;
  runtime::Setup setup;                               // loaded for it
  std::vector<runtime::HostDevices> hosts;            // by rank; empty for one process
  std::optional<ResumePoint> resume;                  // read by all processes; nothing: a new run
  std::shared_ptr<const runtime::Restored> restored;  // the tensors of the local stages
  std::optional<measure::Forecast> forecast;          // if it was planned now
  nlohmann::ordered_json planned_for;                 // planned_for(); null without a plan
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

// A resumed run keeps its plan if its inputs are unchanged. Another measurement has other times, may give
// another plan, and with it other bits.

// The inputs of `plan: auto`: keys of the configuration, and the devices of each process. `hosts`: by rank.
nlohmann::ordered_json planned_for(const Config& asked, const std::vector<runtime::HostDevices>& hosts);

// Records the inputs in the folder of the run.
void write_planned_for(const std::string& run_dir, const nlohmann::ordered_json& now);

// `asked` with the plan of the run that it resumes; nothing if that run has no plan or other inputs. `say`
// gets a warning if the record is damaged.
std::optional<Config> with_cached_plan(const Config& asked, const nlohmann::ordered_json& now,
                                       const std::function<void(const std::string& line)>& say);

}  // namespace twobw::train
