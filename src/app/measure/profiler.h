// Measures a model on a device: what the planner needs to know of it. Layers of one kind are
// measured once, whatever their number.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/device/device.h"
#include "engine/runtime/setup.h"
#include "planning/planner/costs/profile.h"

namespace twobw::measure {

struct ProfileRequest {
  std::vector<int> sizes;  // sequences in a microbatch, growing
  int rounds = 10;
  bool recomputation = true;  // measured too; else those times stay 0
  bool link = true;           // likewise
};

// Told how far it is, from the measuring thread.
struct ProfileObserver {
  std::function<void(int done, int all, int microbatch)> on_round = [](int, int, int) {};
  std::function<void(const std::string& line)> on_note = [](const std::string&) {};
};

// The device that is measured, and those that are kept busy meanwhile, as in a run.
struct ProfiledDevices {
  device::Device measured;
  std::vector<device::Device> busy;
};

// The first of them is measured; the others keep it neighbours where they share no core and are this
// process's to use.
ProfiledDevices profiled_among(const std::vector<device::Device>& devices);
// Among the devices of the configuration; without any, among single cores, all that there are.
ProfiledDevices profiled_devices(const runtime::Setup& setup);

// Sizes for which memory does not suffice are left out, with a note. Throws RunError when that is all
// of them. Who calls fills in the program's version.
planner::Profile profile(const runtime::Setup& setup, const ProfiledDevices& devices,
                         const ProfileRequest& request, const ProfileObserver& observer = {});

}  // namespace twobw::measure
