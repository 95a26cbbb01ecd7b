// plan: auto. The model is measured on this machine, the planner chooses, and after the run its forecast is
// held against what was measured.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/measure/process_plan.h"
#include "core/base/config.h"
#include "planning/planner/costs/plan.h"
#include "planning/planner/costs/profile.h"

namespace twobw::measure {

struct Forecast {
  Config config;             // with the plan's choices
  planner::Plan plan;        // for the devices it names, or the cores of this machine
  planner::Profile profile;  // that it was made from
};

// Throws InputError when nothing fits. `say` gets a line at a time. Plans of several processes are not tried:
// the model decides.
Forecast plan_run(const Config& config, const std::function<void(const std::string&)>& say,
                  const DevicesOfProcesses& devices = {});

// Both figures and their ratio, of the throughput and of every stage's memory by purpose; `summary` is
// that of the run.
nlohmann::ordered_json compare(const planner::Plan& plan, const nlohmann::ordered_json& summary);

// The comparison in words, a line each.
std::vector<std::string> describe_comparison(const nlohmann::ordered_json& comparison);

}  // namespace twobw::measure
