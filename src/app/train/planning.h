// What a run computes with: as it was asked for, or with `plan: auto` as it is planned now or was before.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/measure/forecast.h"
#include "app/train/resume.h"
#include "core/base/config.h"
#include "engine/runtime/process_devices.h"
#include "engine/transport/processes.h"

namespace twobw::train {

struct Planning {
  Config config;
  std::optional<measure::Forecast> forecast;  // where it was planned now
  nlohmann::ordered_json planned_for;         // kept_plan.h; null: nothing is planned
};

// Alone, or on rank 0 while the others come to measure::measure_links: `processes` may be null, `hosts`
// theirs. `newest`: what the run goes on from.
Planning plan_if_asked(const Config& asked, const std::optional<ResumePoint>& newest,
                       const std::vector<runtime::HostDevices>& hosts, transport::Processes* processes,
                       const std::function<void(const std::string& line)>& say);

}  // namespace twobw::train
