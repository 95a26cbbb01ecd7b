// Measures a model's layers on a device for the planner. Layers of one kind are measured once.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/device/device.h"
#include "engine/runtime/setup.h"
#include "planning/planner/costs/profile.h"

namespace twobw::measure {

struct ProfileRequest {
  std::vector<int> sizes;  // sequences per microbatch, ascending
  int rounds = 10;
  bool recomputation = true;  // measure recomputed layers too
  bool link = true;           // measure the local link too
};

// Progress, reported from the measuring thread.
struct ProfileObserver {
  std::function<void(int done, int all, int microbatch)> on_round = [](int, int, int) {};
  std::function<void(const std::string& line)> on_note = [](const std::string&) {};
};

// The measured device, and those kept busy meanwhile (BackgroundLoad).
struct ProfiledDevices {
  device::Device measured;
  std::vector<device::Device> busy;
};

// Measures the first; the others keep busy if available to this process and disjoint from it.
ProfiledDevices profiled_among(const std::vector<device::Device>& devices);
// Chooses from the configuration's devices, or all single cores.
ProfiledDevices profiled_devices(const runtime::Setup& setup);

// Skips sizes that exceed memory, with a note; throws RunError if all do. Leaves the program's version empty.
planner::Profile profile(const runtime::Setup& setup, const ProfiledDevices& devices,
                         const ProfileRequest& request, const ProfileObserver& observer = {});

}  // namespace twobw::measure
