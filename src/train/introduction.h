// What a run says of itself before it begins.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "runtime/process_devices.h"
#include "runtime/setup.h"
#include "train/run_directory.h"

namespace twobw::train {

// The process that hosts a worker, of so many.
std::size_t process_of(int worker, int workers, std::size_t processes);
// " of node3 (process 1)"; empty where there is one process, and so no hosts.
std::string where_is(int worker, int workers, const std::vector<runtime::HostCores>& hosts);

// `hosts`: of the processes, by rank, where there are several. `say` gets a line at a time.
void introduce(const runtime::Setup& setup, const RunDirectory& directory,
               const std::vector<runtime::HostCores>& hosts,
               const std::function<void(const std::string&)>& say);

}  // namespace twobw::train
