// The error of dividing workers among the devices of processes.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"
#include "engine/runtime/process_devices.h"
#include "tests/support/refusal.h"

namespace twobw::runtime {

// Empty if it succeeds.
inline std::string device_refusal(const Config& config, const std::vector<HostDevices>& hosts) {
  return error_of([&] { devices_of_processes(config, hosts); });
}

}  // namespace twobw::runtime
