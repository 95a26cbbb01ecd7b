// The header of a run: its model, data, schedule and devices.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/pipeline_shape.h"
#include "engine/runtime/process_devices.h"
#include "engine/runtime/setup.h"

namespace twobw::train {

// The rank of the process that has a worker. `hosts`: by rank.
int process_of(int worker, const PipelineShape& shape, const std::vector<runtime::HostDevices>& hosts);
// " of node3 (process 1)"; empty for one process.
std::string where_is(int worker, const PipelineShape& shape, const std::vector<runtime::HostDevices>& hosts);

// `given`: the configuration with `devices` as the user set them. `moved_to`: the new name of a former run in
// run_dir; empty without one. `hosts`: by rank; empty for one process. `say` gets one line at a time.
void print_header(const Config& given, const runtime::Setup& setup, const std::string& moved_to,
                  const std::vector<runtime::HostDevices>& hosts,
                  const std::function<void(const std::string&)>& say);

}  // namespace twobw::train
