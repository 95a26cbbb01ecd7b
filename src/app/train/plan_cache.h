// The plan of a run that goes on as it was planned for. Measured anew, layers and links take other times,
// which may give another plan, and with it other bits: so the one that the run has is kept.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "engine/runtime/process_devices.h"

namespace twobw::train {

// What `plan: auto` plans for: what of the configuration it plans by, and what the processes have to compute
// on. `hosts`: theirs, by rank.
nlohmann::ordered_json planned_for(const Config& asked, const std::vector<runtime::HostDevices>& hosts);

// Of the run in that folder, written once it has its plan.
void write_planned_for(const std::string& run_dir, const nlohmann::ordered_json& now);

// `asked` with the plan of the run that it resumes; none: nothing is planned there, or for something else.
// `say` gets a warning if the record of that is damaged.
std::optional<Config> with_cached_plan(const Config& asked, const nlohmann::ordered_json& now,
                                       const std::function<void(const std::string& line)>& say);

}  // namespace twobw::train
