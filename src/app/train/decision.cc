#include "app/train/decision.h"

#include <fmt/format.h>

#include <utility>

#include "app/measure/links.h"
#include "app/measure/split.h"
#include "core/base/codec.h"
#include "core/base/config_schema.h"
#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/text_file.h"
#include "engine/runtime/rank_map.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::train {
namespace {

using Say = std::function<void(const std::string& line)>;

schedule::Spec spec_of(const Config& config) {
  schedule::Spec spec = runtime::spec_of(config);
  spec.save_every = config.checkpoint.every_updates;
  spec.save_last = config.checkpoint.every_updates > 0 || config.checkpoint.every_minutes > 0;
  return spec;
}

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

constexpr const char* kPlannedFor = "/planned_for.json";

bool is_planned_by(const std::string& path) {
  static const std::set<std::string> sections = {"model", "pipeline"};
  static const std::set<std::string> keys = {"devices", "train.precision", "optimizer.name"};
  return sections.contains(section_of(path)) || keys.contains(path);
}

// Identifies machines by their first process: names may change.
std::ptrdiff_t first_on_machine(const std::vector<runtime::HostDevices>& hosts,
                                const runtime::HostDevices& host) {
  return std::ranges::find(hosts, host.machine, &runtime::HostDevices::machine) - hosts.begin();
}

}  // namespace

std::vector<int> DecidedRun::stages_of(int rank, int ranks) const {
  const runtime::RankMap rank_map(spec.shape, ranks, rank);
  std::vector<int> stages;
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    if (rank_map.replicas_here(stage) > 0) stages.push_back(stage);
  }
  return stages;
}

DecidedRun decide(Config config, const std::vector<int>& split, const std::vector<device::Device>& devices,
                  const std::optional<ResumePoint>& resume, const architecture::Model& layers) {
  config.pipeline.split = split;
  config.resume = "none";
  config.data.changed = DataConfig().changed;  // allowed once
  DecidedRun run{.spec = spec_of(config), .devices = devices};
  run.config = std::move(config);
  if (!resume) return run;
  run.resume = CheckpointId{.folder = resume->folder, .manifest = resume->checksum};
  begin_at(resume->manifest, layers, run.spec);
  return run;
}

std::string encode_run(const DecidedRun& run) {
  return to_bytes(to_yaml(run.config), run.devices, run.resume, run.spec.first_batch, run.spec.begins_drained,
                  run.record_events);
}

DecidedRun decode_run(std::string_view bytes) {
  DecidedRun run;
  std::string config;
  std::int64_t first_batch = 0;
  bool begins_drained = false;
  Decoder decoder(bytes);
  decoder(config, run.devices, run.resume, first_batch, begins_drained, run.record_events);
  decoder.finish();
  run.config = config_from_text(config, "the configuration that process 0 sent");
  run.spec = spec_of(run.config);
  run.spec.first_batch = first_batch;
  run.spec.begins_drained = begins_drained;
  return run;
}

Config computed_with(Config config, const std::string& checkpoint) {
  if (checkpoint.empty()) return config;
  config.model.from = "none";
  config.data.tokenizer = tokenizer::present_tokenizer(config.data.tokenizer, checkpoint + "/model");
  return config;
}

runtime::Setup load(const DecidedRun& run) {
  runtime::Setup setup =
      runtime::prepare(computed_with(run.config, run.resume ? run.resume->folder : ""), run.devices);
  setup.spec = run.spec;
  return setup;
}

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

int process_of(int worker, const PipelineShape& shape, const std::vector<runtime::HostDevices>& hosts) {
  return runtime::RankMap(shape, static_cast<int>(hosts.size()), /*rank=*/0).rank_of(worker);
}

std::string where_is(int worker, const PipelineShape& shape, const std::vector<runtime::HostDevices>& hosts) {
  if (hosts.empty()) return {};
  const int process = process_of(worker, shape, hosts);
  return fmt::format(" of {} (process {})", hosts[process].host, process);
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

nlohmann::ordered_json planned_for(const Config& asked, const std::vector<runtime::HostDevices>& hosts) {
  nlohmann::ordered_json processes = nlohmann::ordered_json::array(),
                         configuration = nlohmann::ordered_json::object();
  for (const runtime::HostDevices& host : hosts)
    processes.push_back(
        {{"on_that_of", first_on_machine(hosts, host)}, {"cores", host.cores}, {"gpus", host.gpus}});
  for (const Key& key : schema())
    if (is_planned_by(key.path)) configuration[key.path] = key.write(asked);
  return {{"processes", processes}, {"configuration", configuration}};
}

void write_planned_for(const std::string& run_dir, const nlohmann::ordered_json& now) {
  replace_text(run_dir + kPlannedFor, now.dump(1) + "\n");
}

std::optional<Config> with_cached_plan(const Config& asked, const nlohmann::ordered_json& now,
                                       const std::function<void(const std::string& line)>& say) {
  const std::string run = resumed_run(asked), file = run + kPlannedFor;
  if (!std::filesystem::exists(file)) return std::nullopt;
  const auto then = nlohmann::ordered_json::parse(read_text("record of the plan's inputs", file), nullptr,
                                                  /*allow_exceptions=*/false);
  if (then.is_discarded()) say(fmt::format("warning: '{}' is damaged; the run is planned again", file));
  if (then.is_discarded() || then != now) return std::nullopt;
  const Config planned = load_config_of_run(run, {});
  Config config = asked;
  config.plan = planned.plan;
  config.pipeline = planned.pipeline;
  config.devices = planned.devices;
  return config;
}

}  // namespace twobw::train
