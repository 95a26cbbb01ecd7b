// What a run says of itself before it begins.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/process_devices.h"
#include "runtime/setup.h"
#include "train/run_directory.h"

namespace twobw::train {

// `hosts`: of the processes, by rank, where there are several. `say` gets a line at a time.
void introduce(const runtime::Setup& setup, const RunDirectory& directory,
               const std::vector<runtime::HostCores>& hosts,
               const std::function<void(const std::string&)>& say);

}  // namespace twobw::train
