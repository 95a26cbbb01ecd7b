// Measures a model on the device at hand: what the planner needs to know of it. Layers of one kind are
// measured once, whatever their number.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "device/place.h"
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

// The device that is measured, and those that are kept busy meanwhile, as in a run.
struct ProfiledPlaces {
  device::Place measured;
  std::vector<device::Place> busy;
};

// The first of them is measured; the others keep it company where they share no core.
ProfiledPlaces profiled_among(const std::vector<device::Place>& places);
// Among the devices of the configuration; without any, among single cores, all that there are.
ProfiledPlaces profiled_places(const Setup& setup);

// Sizes for which memory does not suffice are left out, with a note. Throws RunError when that is all
// of them. Who calls fills in the program's version.
planner::Profile profile(const Setup& setup, const ProfiledPlaces& places, const ProfileRequest& request,
                         const ProfileListener& listener = {});

}  // namespace twobw::train
