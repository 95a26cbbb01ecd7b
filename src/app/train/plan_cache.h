// Keeps the plan of a resumed run if its inputs are unchanged. Another measurement has other times, may give
// another plan, and with it other bits.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "engine/runtime/process_devices.h"

namespace twobw::train {

// The inputs of `plan: auto`: keys of the configuration, and the devices of each process. `hosts`: by rank.
nlohmann::ordered_json planned_for(const Config& asked, const std::vector<runtime::HostDevices>& hosts);

// Records the inputs in the folder of the run.
void write_planned_for(const std::string& run_dir, const nlohmann::ordered_json& now);

// `asked` with the plan of the run that it resumes; nothing if that run has no plan or other inputs. `say`
// gets a warning if the record is damaged.
std::optional<Config> with_cached_plan(const Config& asked, const nlohmann::ordered_json& now,
                                       const std::function<void(const std::string& line)>& say);

}  // namespace twobw::train
