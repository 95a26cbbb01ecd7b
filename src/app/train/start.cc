#include "app/train/start.h"

#include <iterator>
#include <utility>

#include "app/measure/split.h"
#include "app/train/resume_together.h"
#include "app/train/run_plan.h"

namespace twobw::train {
namespace {

Start start_at(Config config, std::optional<ResumePoint> resume,
               const std::vector<runtime::HostDevices>& hosts) {
  if (resume && config.pipeline.split.empty() && std::ssize(resume->split) == config.pipeline.stages)
    config.pipeline.split = resume->split;
  runtime::Setup setup = runtime::prepare(
      computed_with(config, resume ? resume->folder : ""),
      hosts.empty() ? std::vector<device::Device>() : runtime::devices_of_processes(config, hosts));
  return {.config = std::move(config), .setup = std::move(setup), .resume = std::move(resume)};
}

}  // namespace

Start prepare_start(const Config& planned, const Config& asked, std::optional<ResumePoint> newest,
                    const std::vector<runtime::HostDevices>& hosts, transport::Processes* processes) {
  Start start = start_at(planned, std::move(newest), hosts);
  while (start.resume && !start.restored) {
    measure::choose_split(start.setup);
    const Reading reading = read_together(start.resume->folder, resolved_config(start), processes);
    if (reading.problem.empty()) {
      start.restored = reading.restored;
    } else {
      start = start_at(planned, find_point_before(*start.resume, asked, reading.problem), hosts);
    }
  }
  if (processes) end_reading(*processes);
  return start;
}

Config resolved_config(const Start& start) {
  Config config = start.config;
  config.pipeline.split = start.setup.spec.shape.split;
  config.resume = "none";
  config.data.changed = DataConfig().changed;  // allowed once
  return config;
}

}  // namespace twobw::train
