// twobw profile, and twobw topology under a launcher: measurements for `twobw plan`.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "app/cli/arguments.h"
#include "app/cli/build_info.h"
#include "app/cli/engine/commands.h"
#include "app/cli/json_output.h"
#include "app/cli/planning_options.h"
#include "app/measure/found_cluster.h"
#include "app/measure/profiler.h"
#include "app/rendezvous/join.h"
#include "app/train/decision.h"
#include "core/base/config.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/text_file.h"
#include "core/telemetry/progress.h"
#include "engine/control/agreement.h"
#include "engine/device/device.h"
#include "engine/models/model.h"
#include "engine/runtime/process_devices.h"
#include "engine/transport/processes.h"

namespace twobw::cli {
namespace {

// profile

constexpr int kLargest = 4096;  // sequences in a microbatch

struct ProfileOptions {
  std::string output = "profile.json";
  std::string sizes = "1,2,4,8";
  int rounds = 10;
  bool json = false;
};

std::vector<int> parse_sizes(const std::string& text) {
  std::set<int> sizes;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto size = parse_number<int>(std::string_view(text).substr(begin, end - begin));
    if (!size || *size < 1 || *size > kLargest) {
      fail_input("--sizes is '{}'; it must be whole numbers from 1 to {} with commas between, such as 1,2,4",
                 text, kLargest);
    }
    sizes.insert(*size);
    begin = end + 1;
  }
  return {sizes.begin(), sizes.end()};
}

std::string milliseconds(const planner::Measured& measured) {
  return fmt::format("{:.3g} ±{:.1g}", measured.median * 1e3, measured.spread * 1e3);
}

void print_table(const planner::Profile& profile) {
  // "±" is two bytes and one column.
  constexpr const char* kRow = "{:<14} {:>10} {:>3} {:>14} {:>14} {:>14} {:>10} {:>10} {:>10}\n";
  constexpr const char* kHeads = "{:<14} {:>10} {:>3} {:>13} {:>13} {:>13} {:>10} {:>10} {:>10}\n";
  fmt::print(fmt::runtime(kHeads), "layer", "parameters", "b", "forward ms", "backward ms", "recomputed ms",
             "saved", "output", "working");
  std::set<std::string> shown;
  for (const std::string& name : profile.layers) {
    if (!shown.insert(name).second) continue;
    const planner::LayerKind& kind = profile.kinds.at(name);
    for (const planner::KindTimes& times : kind.times) {
      const bool first = &times == &kind.times.front();
      fmt::print(fmt::runtime(kRow), first ? name : "", first ? format_count(kind.parameters) : "",
                 times.microbatch, milliseconds(times.forward), milliseconds(times.backward),
                 milliseconds(times.recomputed_backward), format_bytes(times.saved_bytes),
                 format_bytes(times.output), format_bytes(times.working));
    }
  }
  fmt::print("optimizer step: {:.3g} ±{:.1g} ns a parameter\n", profile.step_per_parameter.median * 1e9,
             profile.step_per_parameter.spread * 1e9);
  if (profile.predict_per_parameter.median > 0)
    fmt::print("prediction: {:.3g} ±{:.1g} ns a parameter\n", profile.predict_per_parameter.median * 1e9,
               profile.predict_per_parameter.spread * 1e9);
  for (const auto& [name, link] : profile.links) {
    fmt::print("{} link: {:.3g} us, {}/s\n", name, link.latency * 1e6, format_bytes(link.bandwidth));
  }
}

std::string while_others_work(const measure::ProfiledDevices& devices) {
  const std::size_t others = devices.busy.size();
  if (others == 0) return "";
  return fmt::format(" while {} other device{}, as in a run", others, others == 1 ? " works" : "s work");
}

int run(const RunArguments& arguments, const ProfileOptions& options) {
  const measure::ProfileRequest request{.sizes = parse_sizes(options.sizes), .rounds = options.rounds};
  const Config config = load_to_plan(arguments);
  check_writable("--output", options.output);
  device::initialize();
  const runtime::Setup setup = runtime::prepare(config);
  std::optional<ProgressOnStderr> quiet(std::in_place, options.json);
  telemetry::Progress progress(isatty(STDOUT_FILENO) != 0);
  const measure::ProfileObserver observer{.on_round =
                                              [&](int done, int all, int microbatch) {
                                                progress.show(done, all, "round",
                                                              fmt::format("microbatches of {}", microbatch));
                                              },
                                          .on_note = [&](const std::string& line) { progress.say(line); }};
  const measure::ProfiledDevices devices = measure::profiled_devices(setup);
  progress.say(fmt::format("measuring {} on {}{}", architecture::describe(setup.model.layers),
                           device::describe(devices.measured), while_others_work(devices)));
  planner::Profile profile = measure::profile(setup, devices, request, observer);
  profile.program = kBuild.program;
  const std::string text = planner::to_json(profile);
  write_text(options.output, text);
  progress.say("");
  quiet.reset();
  if (options.json) {
    fmt::print("{}", text);
    return 0;
  }
  print_table(profile);
  fmt::print("written to {}\n", options.output);
  return 0;
}

// topology

// The GPUs that a run would compute on; empty if on cores.
std::vector<GpuSlice> gpus_of(const Config& config, const std::vector<runtime::HostDevices>& hosts) {
  std::vector<GpuSlice> gpus;
  if (hosts.empty() || !runtime::choose_devices(config, hosts).gpus) return gpus;
  for (const std::string& name : runtime::devices_to_plan_for(config, hosts))
    gpus.push_back(parse_gpu(name).front());
  return gpus;
}

ClusterText describe_hosts(const launch::World& world, const Config& config, const std::string& output) {
  device::initialize();
  const control::Facts facts = {{"the command", "topology"}, {"--output", output}};
  const auto processes = rendezvous::join(world, config.network, facts);
  return rendezvous::run_and_leave(processes.get(), [&] {
    ClusterText text;
    if (world.rank == 0 && !output.empty()) check_writable("--output", output);
    const std::vector<runtime::HostDevices> hosts = train::gather_hosts(*processes);
    const measure::FoundCluster found = measure::find_cluster(*processes, hosts, gpus_of(config, hosts));
    if (world.rank == 0) {
      const int devices = measure::cluster_of(found).device_count();
      text.yaml = measure::describe(found);
      text.summary =
          fmt::format("{}\n{} device{} on {} host{}", measure::table_of(found), devices,
                      devices == 1 ? "" : "s", found.hosts.size(), found.hosts.size() == 1 ? "" : "s");
    }
    return text;
  });
}

}  // namespace

void add_profile(CLI::App& command, int& exit_code) {
  auto arguments = add_run_arguments(command);
  auto options = std::make_shared<ProfileOptions>();
  command.option_defaults()->always_capture_default();  // the help shows them
  command.add_option("--output", options->output, "The file to write");
  command.add_option("--sizes", options->sizes, "Microbatch sizes to measure, in sequences");
  command.add_option("--rounds", options->rounds, "Repetitions of every measurement")
      ->check(CLI::PositiveNumber);
  add_json_flag(command, options->json);
  command.callback([arguments, options, &exit_code] { exit_code = run(*arguments, *options); });
}

void add_topology_of_hosts(CLI::App& command, int&) {
  add_topology_options(command, describe_hosts);
}

}  // namespace twobw::cli
