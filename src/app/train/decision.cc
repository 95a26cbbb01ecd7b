#include "app/train/decision.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "app/measure/links.h"
#include "app/measure/split.h"
#include "app/train/plan_cache.h"
#include "app/train/resume.h"
#include "core/base/codec.h"
#include "core/base/error.h"
#include "engine/runtime/process_devices.h"
#include "engine/runtime/rank_map.h"

namespace twobw::train {
namespace {

using Say = std::function<void(const std::string& line)>;

// The configuration as planned, and how it was planned.
struct Planned {
  Config config;
  std::optional<measure::Forecast> forecast = {};
  nlohmann::ordered_json planned_for = {};
};

measure::Forecast plan_now(const Config& asked, const std::string& resumed_from,
                           const std::vector<runtime::HostDevices>& hosts, transport::Processes* processes,
                           const Say& say) {
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

// With plan: auto the others take part by measure::measure_links().
Planned plan_if_asked(const Config& asked, const std::optional<ResumePoint>& newest,
                      const std::vector<runtime::HostDevices>& hosts, transport::Processes* processes,
                      const Say& say) {
  Planned planned{.config = asked};
  if (asked.plan != "auto") return planned;
  planned.planned_for =
      planned_for(asked, processes != nullptr ? hosts : std::vector{runtime::host_devices()});
  const std::optional<Config> cached =
      newest ? with_cached_plan(asked, planned.planned_for, say) : std::optional<Config>();
  if (cached) {
    say("the plan of the run is kept: it was made for the same configuration and devices");
    if (processes != nullptr) measure::measure_links(*processes);
    planned.config = *cached;
  } else {
    planned.forecast = plan_now(asked, newest ? newest->folder : "", hosts, processes, say);
    planned.config = planned.forecast->config;
  }
  planned.config.model.from = asked.model.from;
  planned.config.data.tokenizer = asked.data.tokenizer;
  return planned;
}

// An open split is that of the checkpoint if it has as many stages, else measured.
runtime::Setup load_and_split(Config config, const std::optional<ResumePoint>& resume,
                              const std::vector<runtime::HostDevices>& hosts) {
  if (resume && config.pipeline.split.empty() && std::ssize(resume->split) == config.pipeline.stages)
    config.pipeline.split = resume->split;
  runtime::Setup setup = runtime::prepare(
      computed_with(config, resume ? resume->folder : ""),
      hosts.empty() ? std::vector<device::Device>() : runtime::devices_of_processes(config, hosts));
  measure::choose_split(setup);
  return setup;
}

// The part of the checkpoint that this process needs, or the reason why it cannot be read.
struct Reading {
  std::shared_ptr<const runtime::Restored> restored = {};
  std::string problem = {};
};

Reading read_here(const DecidedRun& run, const transport::Processes* processes) {
  if (!run.resume) return {};
  try {
    return {.restored = read_stages(
                run.resume->folder, run.config,
                run.stages_of(processes ? processes->rank() : 0, processes ? processes->size() : 1))};
  } catch (const InputError& error) {
    return {.problem = error.what()};
  }
}

// Rank 0's part, and the first problem of any process.
Reading propose(const DecidedRun& run, transport::Processes* processes) {
  if (processes == nullptr) return read_here(run, nullptr);
  processes->mail().send_to_others(encode_run(run));
  Reading reading = read_here(run, processes);
  if (!reading.problem.empty()) reading.problem = fmt::format("process 0: {}", reading.problem);
  for (int rank = 1; rank < processes->size(); ++rank) {
    const std::string problem = processes->mail().receive(rank);
    if (reading.problem.empty() && !problem.empty())
      reading.problem = fmt::format("process {}: {}", rank, problem);
  }
  return reading;
}

// Hosts without a shared file system may have another file under the same name.
void check_same(const CheckpointId& checkpoint) {
  std::string here;
  try {
    here = manifest_checksum(checkpoint.folder);
  } catch (const InputError&) {
    fail_input(
        "the checkpoint '{}' is not there for this process; run_dir must be on a file system that all hosts "
        "of the run share",
        checkpoint.folder);
  }
  if (here == checkpoint.manifest) return;
  fail_input(
      "the checkpoint '{}' is another one for this process than for process 0; run_dir must be on a file "
      "system that all hosts of the run share",
      checkpoint.folder);
}

}  // namespace

void check_share(const Config& config, const transport::Processes& processes) {
  if (config.plan != "auto") runtime::RankMap(config.pipeline, processes.size(), processes.rank());
}

std::vector<runtime::HostDevices> gather_hosts(transport::Processes& processes) {
  const runtime::HostDevices own = runtime::host_devices();
  if (processes.rank() > 0) {
    processes.mail().send(0, to_bytes(own));
    return {};
  }
  std::vector<runtime::HostDevices> hosts = {own};
  for (int rank = 1; rank < processes.size(); ++rank)
    hosts.push_back(from_bytes<runtime::HostDevices>(processes.mail().receive(rank)));
  return hosts;
}

Decision decide_run(const Config& asked, bool record_events, transport::Processes* processes,
                    const Say& say) {
  const std::vector<runtime::HostDevices> hosts =
      processes ? gather_hosts(*processes) : std::vector<runtime::HostDevices>();
  std::optional<ResumePoint> point = find_resume_point(asked);
  const Planned planned = plan_if_asked(asked, point, hosts, processes, say);
  while (true) {
    runtime::Setup setup = load_and_split(planned.config, point, hosts);
    DecidedRun run = decide(planned.config, setup.spec.shape.split, setup.devices, point, setup.model.layers);
    run.record_events = record_events;
    Reading reading = propose(run, processes);
    if (reading.problem.empty()) {
      setup.spec = run.spec;
      return {.run = std::move(run),
              .setup = std::move(setup),
              .hosts = hosts,
              .resume = std::move(point),
              .restored = std::move(reading.restored),
              .forecast = planned.forecast,
              .planned_for = planned.planned_for};
    }
    point = find_point_before(*point, asked, reading.problem);
  }
}

void start_others(transport::Processes& processes) {
  processes.mail().send_to_others({});
}

Assignment await_decision(transport::Processes& processes, bool plans) {
  gather_hosts(processes);
  if (plans) measure::measure_links(processes);
  Assignment assignment;
  while (true) {
    const std::string bytes = processes.mail().receive(0);
    if (bytes.empty()) return assignment;
    assignment.run = decode_run(bytes);
    if (assignment.run.resume) check_same(*assignment.run.resume);
    Reading reading = read_here(assignment.run, &processes);
    assignment.restored = std::move(reading.restored);
    processes.mail().send(0, reading.problem);
  }
}

}  // namespace twobw::train
