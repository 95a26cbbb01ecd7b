// Measures a model on the device at hand: what the planner needs to know of it. Layers of one kind are
// measured once, whatever their number.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "device/cpu.h"
#include "planner/profile.h"
#include "train/setup.h"

namespace twobw::train {

struct ProfileRequest {
  std::vector<int> sizes;  // sequences in a microbatch, growing
  int rounds = 10;
  bool recomputation = true;  // measured too; else those times stay 0
  bool link = true;           // likewise
};

// Who listens. Called from the measuring thread.
struct ProfileListener {
  std::function<void(int done, int all, int microbatch)> on_round = [](int, int, int) {};
  std::function<void(const std::string& line)> on_note = [](const std::string&) {};
};

// One core, where the workers of a run would share the machine; else the first one's device.
device::CoreSet profiled_cores(const Setup& setup);

// Sizes for which memory does not suffice are left out, with a note. Throws RunError when that is all
// of them. Who calls fills in the program's version.
planner::Profile profile(const Setup& setup, const device::CoreSet& cores, const ProfileRequest& request,
                         const ProfileListener& listener = {});

}  // namespace twobw::train
