#include "app/train/plan_cache.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "app/train/resume.h"
#include "core/base/config_schema.h"
#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/text_file.h"

namespace twobw::train {
namespace {

constexpr const char* kFile = "/planned_for.json";

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
  replace_text(run_dir + kFile, now.dump(1) + "\n");
}

std::optional<Config> with_cached_plan(const Config& asked, const nlohmann::ordered_json& now,
                                       const std::function<void(const std::string& line)>& say) {
  const std::string run = resumed_run(asked), file = run + kFile;
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
